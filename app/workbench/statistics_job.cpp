// SPDX-License-Identifier: Apache-2.0
#include "statistics_job.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <vector>

#include "base/errors.h"
#include "kernels/stop_status.h"

namespace headscope::app {
namespace {

using Clock = std::chrono::steady_clock;

// Rows of a head's quick look: enough to tell the classes apart, some fifty times cheaper than all rows of a 16K trace.
constexpr int64_t kQuickRows = 256;
// Rows x tokens up to which all rows take hardly longer than a quick look and the exact pass behind it: there is none.
constexpr int64_t kFewPairs = int64_t{1} << 20;
constexpr std::chrono::seconds kSaveEvery(20);

// Linux gives each thread its own nice value, and threads inherit it from the one that makes them.
void LowerPriorityOfThisThread() {
  setpriority(PRIO_PROCESS, 0, 10);
}

double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

struct StatisticsJob::Run {
  std::shared_ptr<OpenedTrace> trace;
  StatisticsStore store;
  Callbacks callbacks;
  std::stop_token current;
  std::map<analysis::HeadId, KnownHead> known;
  Clock::time_point saved = Clock::now();
  bool lse_told = false;      // once a trace is enough
  NamedDevice last_device{};  // of the last head
};

StatisticsJob::StatisticsJob(Post post, std::shared_ptr<MeasuringGate> gate)
    : post_(std::move(post)), gate_(std::move(gate)), queue_(1, post_) {
  const std::lock_guard lock(gate_->mutex);
  gate_->jobs.insert(this);
}

StatisticsJob::~StatisticsJob() {
  Cancel();
  const std::lock_guard lock(gate_->mutex);
  gate_->jobs.erase(this);
}

void StatisticsJob::Start(std::shared_ptr<OpenedTrace> trace, const std::string& cache_dir, Callbacks callbacks) {
  Cancel();
  current_ = {};
  // A trace that still grows has no lasting statistics.
  StatisticsStore store(trace->summary.complete ? cache_dir : std::string(), trace->summary.path);
  auto run =
      std::make_shared<Run>(Run{std::move(trace), std::move(store), std::move(callbacks), current_.get_token(), {}});
  queue_.Submit(
      "statistics", 0, [this, run](const std::stop_token& stop) { Work(*run, stop); },
      [run] { run->callbacks.finished(); });
}

void StatisticsJob::Cancel() {
  current_.request_stop();
  queue_.Cancel("statistics");
  const std::lock_guard lock(gate_->mutex);
  stop_head_.request_stop();
  gate_->opened.notify_all();
}

void StatisticsJob::Cancel(std::function<void()> ended) {
  Cancel();
  // The queue's one worker comes to it behind the head under way.
  queue_.Submit(
      "ended", 0, [](const std::stop_token&) {}, std::move(ended));
}

void StatisticsJob::Pause() {
  {
    const std::lock_guard lock(gate_->mutex);
    ++gate_->pauses;
    for (StatisticsJob* job : gate_->jobs) job->stop_head_.request_stop();
  }
  const std::lock_guard returned(gate_->returning);
}

void StatisticsJob::Resume() {
  const std::lock_guard lock(gate_->mutex);
  --gate_->pauses;
  gate_->opened.notify_all();
}

std::optional<std::stop_token> StatisticsJob::WaitWhilePaused(const std::stop_token& stop) {
  std::unique_lock lock(gate_->mutex);
  gate_->opened.wait(lock, [&] { return gate_->pauses == 0 || stop.stop_requested(); });
  // Under the lock: a Pause() or Cancel() from now on stops the next head.
  stop_head_ = {};
  if (stop.stop_requested()) return std::nullopt;
  return stop_head_.get_token();
}

void StatisticsJob::Work(Run& run, const std::stop_token& stop) {
  LowerPriorityOfThisThread();
  for (KnownHead& head : run.store.Load()) {
    const std::vector<analysis::HeadId>& heads = run.trace->summary.heads;
    const analysis::HeadId id = head.statistics.id;
    if (!std::binary_search(heads.begin(), heads.end(), id)) continue;
    post_([current = run.current, one = run.callbacks.one, head] {
      if (!current.stop_requested()) one(head);
    });
    run.known[id] = std::move(head);
  }
  const int64_t rows = run.trace->summary.num_rows;
  if (rows > kQuickRows && rows * run.trace->summary.num_tokens > kFewPairs) Pass(run, kQuickRows, stop);
  Pass(run, rows, stop);
}

void StatisticsJob::TellOfWrongLse(Run& run, const analysis::HeadTensors& head) {
  const std::string wrong = analysis::DescribeWrongLse(head, run.trace->reader);
  if (wrong.empty()) return;
  run.lse_told = true;
  post_([current = run.current, failed = run.callbacks.failed, wrong] {
    if (!current.stop_requested()) failed(wrong);
  });
}

// Does every head that is not known from at least `rows` rows.
void StatisticsJob::Pass(Run& run, int64_t rows, const std::stop_token& stop) {
  const bool exact = rows == run.trace->summary.num_rows;
  std::vector<analysis::HeadId> todo;
  for (const analysis::HeadId& head : run.trace->summary.heads) {
    const auto known = run.known.find(head);
    if (known == run.known.end() || known->second.statistics.num_rows < rows) todo.push_back(head);
  }
  if (todo.empty()) return;
  std::string save_error;
  const auto save = [&] {
    std::vector<KnownHead> all;
    for (const auto& [id, known] : run.known) all.push_back(known);
    save_error = run.store.Save(all);
    run.saved = Clock::now();
  };
  analysis::StatisticsOptions options;
  options.max_rows = exact ? 0 : rows;
  const Clock::time_point start = Clock::now();
  const auto compute = [&](const analysis::SweepCell& cell) -> kernels::Status {
    const analysis::HeadId id = todo[cell.head];
    while (const std::optional<std::stop_token> stop_head = WaitWhilePaused(stop)) {
      options.stop = *stop_head;
      // A quick look is done before its head were on the GPU.
      const analysis::HeadTensorsPtr head = run.trace->heads.GetUncached(id, exact ? kWindowsGpu : kCpu);
      if (!run.lse_told) TellOfWrongLse(run, *head);
      KnownHead known;
      try {
        known.statistics = analysis::ComputeStatistics(*head, options, &known.evidence);
      } catch (const CancelledError&) {
        continue;  // ended for good, or to be done again after a pause
      }
      post_([current = run.current, one = run.callbacks.one, known] {
        if (!current.stop_requested()) one(known);
      });
      run.last_device = known.statistics.device;
      run.known[id] = std::move(known);
      return {};
    }
    return kernels::Stopped();
  };
  // One head at a time, on all cores but at low priority: who looks at the matrix sees it fill evenly.
  analysis::SweepOptions sweep;
  sweep.stop = stop;
  sweep.failed = [&](const analysis::SweepCell&, const kernels::Status& status) {
    post_([current = run.current, failed = run.callbacks.failed, why = status.message()] {
      if (!current.stop_requested()) failed(why);
    });
  };
  sweep.progress = [&](const analysis::SweepProgress& at) {
    ui::ProgressReport report;
    report.stage = exact ? "Exact statistics" : "Quick estimates of every head";
    if (run.last_device.is_gpu()) report.stage += " on " + run.last_device.name;
    report.fraction = at.share;
    report.unit = ProgressUnit::kHeads;
    report.rate = static_cast<double>(at.done) / std::max(1e-9, Seconds(Clock::now() - start));
    report.remaining_s = static_cast<double>(at.total - at.done) / report.rate;
    post_([current = run.current, progress = run.callbacks.progress, report] {
      if (!current.stop_requested()) progress(report);
    });
    if (Clock::now() - run.saved > kSaveEvery) save();
  };
  // Cancelled, too, what has been computed is worth keeping.
  static_cast<void>(analysis::SweepCells({.num_heads = todo.size()}, sweep, compute));
  save();
  if (!save_error.empty()) {
    post_([current = run.current, failed = run.callbacks.failed, save_error] {
      if (!current.stop_requested()) failed(save_error);
    });
  }
}

}  // namespace headscope::app
