// SPDX-License-Identifier: Apache-2.0
// Statistics of all heads in the background: what is on disk at once, then a quick look at every head, then the exact
// numbers.
//
// One worker thread at low priority, so that tiles and masks go first. Measured runs pause it: their times must be
// theirs alone.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "analysis/statistics.h"
#include "analysis/sweep.h"
#include "analysis/task_queue.h"
#include "opened_trace.h"
#include "statistics_store.h"

namespace headscope::app {

class StatisticsJob;

// What holds the statistics of all open traces back while something is measured.
struct MeasuringGate {
  std::mutex mutex;
  std::condition_variable opened;
  int32_t pauses = 0;
  std::set<StatisticsJob*> jobs;
  std::mutex returning;  // held while memory goes back to the system (PageReturner), and never waited for under `mutex`
};

class StatisticsJob {
 public:
  using Post = std::function<void(std::function<void()>)>;
  StatisticsJob(Post post, std::shared_ptr<MeasuringGate> gate);
  ~StatisticsJob();

  struct Callbacks {
    ui::Reply<KnownHead> one;
    std::function<void()> finished;
    ui::Reply<ui::ProgressReport> progress;
    ui::ErrorReply failed;  // a head that could not be read, or a cache folder that cannot be written; the others go on
  };
  // Callbacks come on the UI thread. A new start cancels the one before.
  void Start(std::shared_ptr<OpenedTrace> trace, const std::string& cache_dir, Callbacks callbacks);
  void Cancel();
  void Cancel(std::function<void()> ended);  // which is called when nothing is computed any more
  // While paused no job of the gate computes statistics; the heads under way start again later. Nor does memory go back
  // to the system: waits for the few milliseconds of what is under way. From any thread but the UI's; calls nest.
  void Pause();
  void Resume();

 private:
  struct Run;
  void Work(Run& run, const std::stop_token& stop);
  void Pass(Run& run, int64_t rows, const std::stop_token& stop);
  void TellOfWrongLse(Run& run, const analysis::HeadTensors& head);
  // What stops the next head; none when `stop` was requested.
  std::optional<std::stop_token> WaitWhilePaused(const std::stop_token& stop);

  const Post post_;
  const std::shared_ptr<MeasuringGate> gate_;
  std::stop_source stop_head_;                  // of the head under way; under the gate's lock
  std::stop_source current_{std::nostopstate};  // of the last Start: what was posted before its request says nothing
  analysis::TaskQueue queue_;                   // last: its destructor joins work that uses the members above
};

// While it lives, the statistics wait.
struct PauseStatistics {
  StatisticsJob& job;
  explicit PauseStatistics(StatisticsJob& paused) : job(paused) { job.Pause(); }
  ~PauseStatistics() { job.Resume(); }
  PauseStatistics(const PauseStatistics&) = delete;
  PauseStatistics& operator=(const PauseStatistics&) = delete;
};

}  // namespace headscope::app
