// SPDX-License-Identifier: Apache-2.0
// Runs that follow a slider: the executor, once, on what a mask keeps, and its output beside dense attention's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "analysis/compare.h"
#include "analysis/head_tensors.h"
#include "analysis/measured_heads.h"
#include "analysis/types/live_run.h"
#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::analysis {

// Dense attention's times beside a slider's runs. A run is compared with the median of the last few: one time may have
// met other work, such as the statistics of a trace that was just opened, and one of long ago says nothing of now. It
// is timed again so seldom that it takes a fifth of the time at most.
class DenseTimes {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  static constexpr size_t kMost = 5;
  static constexpr std::chrono::milliseconds kApart{500};
  static constexpr std::chrono::seconds kOldest{30};

  bool IsDue(Moment now) const;
  void Add(double milliseconds, Moment now);
  void Forget() { times_.clear(); }
  double MedianMs() const;  // 0: none
  int32_t count() const { return static_cast<int32_t>(times_.size()); }
  double OldestSeconds(Moment now) const;

 private:
  struct Time {
    double milliseconds = 0;
    Moment at;
  };
  std::deque<Time> times_;
};

// What chose an index.
struct LiveChoice {
  const kernels::PrefillMethod& method;
  const kernels::ParameterValues& values;
};

// Neighbouring rows of a head.
struct LiveRows {
  int64_t begin = 0, end = 0;
};

class LiveGpu;

// A head under a prefill method's slider: on the GPU where the head lies on one and its values are exact there, else on
// the CPU. Dense attention's output of the checked rows is computed by the first run, on the CPU in fp32, and held. The
// checked rows are: all rows of a head with at most kMostPairs pairs of row and token, else kBlocks blocks of
// kBlockRows rows, evenly spaced, so that the first run, which takes longer by it, does not take as long as dense
// attention does. May be used from several threads: runs of this head wait for each other, those of another head do
// not, and then share the cores on which both are timed.
//
// On the CPU dense attention and the method are timed in turn by every run of a short head, in the rounds of a measured
// comparison: what else the machine does meets both, and their ratio is the one that a comparison finds. Of another,
// dense attention is timed again now and then (DenseTimes); where not all rows are checked, a run attends a second
// time, to the checked rows alone, each block on one core as dense attention has it there: only times of the same rows,
// taken in the same way, are compared.
//
// On a GPU a step takes less than a frame, so that every head is timed in turn with dense attention, by the GPU's own
// clock and as a measured comparison times it: behind the method's own selection where that has a selector for GPUs.
class LiveHead {
 public:
  static constexpr int64_t kMostPairs = int64_t{8192} * 8192;
  // A block's rows are the index's tiles, one of 128 rows or two of 64.
  static constexpr int64_t kBlocks = 8, kBlockRows = 128;

  // A run of more kept scores would hold all cores for seconds at every change; a GPU has them in milliseconds.
  static constexpr int64_t kMostScores = int64_t{1} << 29;

  // What takes less is done twice where it is not timed in rounds.
  static constexpr double kShortMs = 30;
  // A head is short up to this many pairs of row and token, times the dimensions of its keys and values: 4,096 tokens
  // of 128 each. Not by the time: on a busy machine, where one time says least, every head would be long.
  static constexpr int64_t kMostInTurn = int64_t{4096} * 4096 * 256;
  static constexpr int32_t kLeastRounds = 3;
  static constexpr double kRoundsMs = 20;  // they go on for so long

  explicit LiveHead(HeadTensorsPtr head);
  ~LiveHead();

  const HeadTensorsPtr& head() const { return head_; }
  // As PreviewMask; on a GPU by its selector, if the method has one. `mass` is of this head.
  kernels::Status Preview(const HeadMass& mass, const LiveChoice& choice, int32_t num_threads,
                          const std::stop_token& stop, MaskPreview* preview);
  // `index` is what `choice` selects, and lies inside the model's window (SelectOnHead). Errors: a head on which
  // methods do not run; an index of other rows or columns; cancelled, and *run is then unchanged.
  kernels::Status Run(const LiveChoice& choice, const kernels::SparseIndexView& index, int32_t num_threads,
                      const std::stop_token& stop, LiveRun* run);
  // The same errors of the method and no times, as soon as may be, whatever else is at work. On the CPU, of a head that
  // is not short and whose rows are all checked, nothing (LiveRun::checked_rows is 0): they would cost a second pass
  // over all of it, and come with the times.
  kernels::Status RunUntimed(const kernels::SparseIndexView& index, int32_t num_threads, const std::stop_token& stop,
                             LiveRun* run);
  // What dense attention took met other work, which has ended: the next run that begins times it anew. Does not wait
  // for the one under way, whose times are forgotten as well.
  void ForgetDenseTimes() { forgets_times_ = true; }
  int64_t Bytes() const;  // of the outputs that are held once it has run
  bool is_on_gpu() { return Gpu() != nullptr; }

 private:
  using Rows = LiveRows;
  static std::vector<Rows> RowsToCheck(const HeadTensors& head);
  // Null where the head does not lie on a GPU, or cannot run there: *why_not, in a sentence, where there is a GPU.
  LiveGpu* Gpu(std::string* why_not = nullptr);
  // The errors of the GPU's output, and its times of a choice. *ran is false where the head is not there, or the GPU
  // lacks the memory: the CPU runs then. The GPU's error where that would be too long a run.
  kernels::Status RunOnGpu(const LiveChoice* timed, const kernels::SparseIndexView& index,
                           const kernels::RunOptions& options, LiveRun* run, bool* ran);
  LiveRun Begun() const;  // of the CPU
  bool ChecksAllRows() const { return checked_.size() == 1 && checked_[0].end - checked_[0].begin == head_->num_rows; }
  bool IsShort() const {
    return ChecksAllRows() &&
           head_->num_rows * head_->num_tokens * int64_t{head_->head_dim + head_->ValueDim()} <= kMostInTurn;
  }
  kernels::AttentionProblem ProblemOf(const Rows& rows) const;
  kernels::Status SelectDense(const kernels::AttentionProblem& problem, const kernels::RunOptions& options,
                              kernels::SparseIndex* index) const;
  // Of the checked rows, beside dense attention's of the same device.
  void SetErrorOf(const std::vector<float>& outputs, const std::vector<float>& dense, LiveRun* run) const;
  // Both time the method and dense attention, and make the method's outputs of the checked rows: in turn, of a short
  // head, or apart. `outputs` has room for all rows.
  kernels::Status AttendInTurn(const kernels::SparseIndexView& index, const kernels::RunOptions& options,
                               std::vector<float>* outputs, LiveRun* run);
  kernels::Status AttendApart(const kernels::SparseIndexView& index, const kernels::RunOptions& options,
                              std::vector<float>* outputs, LiveRun* run);
  // Dense attention of the checked rows; adds what it took to the times.
  kernels::Status TimeDense(int32_t num_threads, const std::stop_token& stop, std::vector<float>* outputs);

  // Dense attention, and the method's, of the checked rows, and of one block of them; the latter two append to
  // `outputs`. What it took is added to *milliseconds; null: nothing is timed.
  kernels::Status AttendDense(const kernels::RunOptions& options, std::vector<float>* outputs,
                              double* milliseconds) const;
  kernels::Status AttendChecked(const kernels::SparseIndexView& index, const kernels::RunOptions& options,
                                std::vector<float>* outputs, double* milliseconds) const;
  kernels::Status AttendRows(const Rows& rows, const kernels::SparseIndexView& kept, const kernels::RunOptions& options,
                             std::vector<float>* outputs, double* milliseconds) const;

  const HeadTensorsPtr head_;
  const std::vector<Rows> checked_;
  std::mutex mutex_;
  // [checked rows, v_head_dim], one block of rows after the other; empty: not known yet. The GPU's is rounded as the
  // method's there: what is left out is then all that makes them differ.
  std::vector<float> dense_, gpu_dense_;
  DenseTimes dense_times_;
  std::atomic<bool> forgets_times_ = false;
  std::mutex gpu_mutex_;  // of the two below, while they are made
  bool asked_for_gpu_ = false;
  std::string why_not_gpu_;
  std::unique_ptr<LiveGpu> gpu_;
};

// The same of a decode method: its last `decode_rows` recorded rows, one generation step each, as PreviewDecode walks
// over them, each beside dense attention of the same step: headscope's and `other`, in turn, of which the faster
// counts, as in a measured comparison. Selection is not in the times.
kernels::Status RunDecodeLive(const MeasuredHeads& measured, HeadId head, const kernels::DecodeMethod& method,
                              const kernels::ParameterValues& values, int32_t decode_rows, const OtherDense& other,
                              int32_t num_threads, const std::stop_token& stop, LiveRun* run);

}  // namespace headscope::analysis
