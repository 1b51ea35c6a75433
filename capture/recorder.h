// SPDX-License-Identifier: Apache-2.0
// Copies the selected heads of every pass and writes them, on a thread for each file of the trace, while the model goes
// on.
//
// The model's thread only copies (and shortens fp32 to bf16 where that loses nothing). What comes from a GPU is copied
// by the GPU itself, and the writer's thread waits for that. The queue in front of each writer is bounded by bytes,
// beyond which there is a layer or two, so memory does not depend on the trace's length, and a slow disk slows the
// model down instead of filling the memory. What fails in one file ends the recording in all of them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/row_selection.h"
#include "capture/stored_points.h"
#include "data/trace_files_writer.h"
#include "model/transformer.h"

namespace headscope::capture {

// Runs jobs in order on one thread. An exception of a job stops the rest and comes out of the next Push or of Drain.
class WriterThread {
 public:
  explicit WriterThread(int64_t max_queued_bytes);
  ~WriterThread() { Stop(); }
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;
  void AskToStop();  // drops what is queued; nothing may be pushed afterwards
  void Stop();       // and waits for the job that runs
  // Waits while more than max_queued_bytes are queued; `bytes` that the job holds.
  void Push(int64_t bytes, std::function<void()> job);
  void Drain();  // until every job is done

 private:
  struct Job {
    int64_t bytes;
    std::function<void()> run;
  };
  void Run();
  void RethrowLocked();
  const int64_t max_queued_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  int64_t queued_bytes_ = 0;  // of queued jobs and the running one
  bool busy_ = false;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses all of the above
};

struct LayerCopy;

// Hands out the memory of layers' copies again once they are written: fresh memory for every layer and pass would be
// mapped and cleared by the system first, which costs as much as the copying. Holds as many copies as were ever queued
// at once. Used by both threads.
class CopyPool {
 public:
  CopyPool();
  ~CopyPool();
  std::shared_ptr<LayerCopy> Take();  // returns to the pool, which outlives it, when its last owner lets go

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<LayerCopy>> free_;
};

// How many bytes may wait to be written, of all files together. from_gpu: some layer runs there.
int64_t MostQueuedBytes(bool from_gpu, int32_t num_files);

class Recorder : public model::HeadSink {
 public:
  // `writer` outlives the recorder. Numbers are stored in layout.encoding, which must hold them exactly. `readable`:
  // called on a writer's thread as soon as every file has a readable token, maybe more than once; must not throw.
  Recorder(data::TraceFilesWriter* writer, const data::TraceLayout& layout, const RowSelection& rows,
           int64_t prompt_tokens, bool from_gpu, std::function<void()> readable = {});
  // Announces the next pass and its tokens; Take follows for every layer.
  void BeginPass(std::vector<data::TokenRecord> tokens);
  // Instead of EndPass(), of a pass that was stopped: it counts only if every recorded layer is there.
  void AbandonPass();
  // After the pass: flushes when the last flush was a second ago.
  void EndPass();
  // Writes and flushes everything. Throws FailedError when any write failed.
  void Drain();
  // Ends the recording where it stands: drops what is not written yet. Returns the tokens that are readable.
  int64_t Stop();
  int64_t num_rows() const { return rows_recorded_; }
  int64_t num_tokens() const { return next_token_; }
  // Tokens that a Flush made readable in every file.
  int64_t tokens_flushed() const;

  bool Wants(int32_t layer) const override { return slots_[static_cast<size_t>(layer)] >= 0; }
  bool WantsPoint(model::CapturePoint point) const override;
  bool TakesCopies() const override { return true; }
  void Take(const model::LayerHeads& heads) override;

 private:
  // What a pass records of every layer.
  struct RecordedRows {
    std::vector<int64_t> kept;  // offsets of the recorded rows from the pass's first token
    std::vector<int64_t> all;   // of all its tokens
    int64_t first_row = 0;      // of the recorded ones, in the trace
  };
  // Puts the recorded part of `heads` together. What lies in their own copy as the trace has it stays there.
  void Fill(const model::LayerHeads& heads, const RecordedRows& rows, LayerCopy* copy) const;
  void PushFlush();
  // Of the file that a layer is recorded in.
  WriterThread& ThreadOf(int32_t slot) { return *threads_[static_cast<size_t>(writer_->PlaceOf(slot).file)]; }
  data::TraceFilesWriter* writer_;
  data::TraceLayout layout_;
  RowSelection rows_;
  int64_t prompt_tokens_;
  std::vector<int32_t> slots_;  // of every layer of the model; -1: not recorded
  std::shared_ptr<const RecordedRows> rows_of_pass_ = std::make_shared<RecordedRows>();
  int64_t pass_tokens_ = 0;
  size_t pass_layers_ = 0;     // taken in this pass
  int64_t next_token_ = 0;     // position after this pass
  int64_t rows_recorded_ = 0;  // this pass included
  // Of each file; set on its writer's thread.
  std::vector<std::atomic<int64_t>> tokens_flushed_;
  std::function<void()> readable_;
  std::chrono::steady_clock::time_point last_flush_;
  CopyPool copies_;
  std::vector<std::unique_ptr<WriterThread>> threads_;  // last: their jobs hold copies
};

}  // namespace headscope::capture
