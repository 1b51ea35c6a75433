// SPDX-License-Identifier: Apache-2.0
#include "analysis/sweep.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <new>

#include "analysis/measured_heads.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "kernels/parallel.h"
#include "kernels/stop_status.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

// What the cells of a sweep tell each other: how much is done, and whether another may begin.
class Ledger {
 public:
  Ledger(size_t num_cells, const SweepOptions& options) : options_(options), shares_(num_cells, 0.0) {}

  bool Ended() const { return ended_.load(std::memory_order_relaxed); }

  // A cell may guess how much it has to do: it never counts for more than one, nor for less than before.
  void Report(size_t place, double share) {
    const std::lock_guard lock(mutex_);
    Set(place, std::clamp(share, shares_[place], 1.0));
  }

  void Finish(size_t place) {
    const std::lock_guard lock(mutex_);
    ++done_;
    Set(place, 1);
  }

  // Whatever the options make of it: the cell counts as done, or no other begins.
  void Fail(const SweepCell& cell, const Status& status) {
    const std::lock_guard lock(mutex_);
    if (status.code() != StatusCode::kCancelled && options_.failed) {
      options_.failed(cell, status);
      ++done_;
      return Set(cell.place, 1);
    }
    if (!ended_.exchange(true)) status_ = status;
  }

  const Status& status() const { return status_; }

 private:
  void Set(size_t place, double share) {
    sum_ += share - shares_[place];
    shares_[place] = share;
    if (!options_.progress) return;
    const size_t total = shares_.size();
    // A sum of parts may end a hair below the whole.
    const double all = done_ == total ? 1 : std::clamp(sum_ / static_cast<double>(total), 0.0, 1.0);
    options_.progress({done_, total, all});
  }

  const SweepOptions& options_;
  std::mutex mutex_;
  std::atomic<bool> ended_ = false;
  Status status_;
  size_t done_ = 0;
  double sum_ = 0;
  std::vector<double> shares_;  // by cell
};

SweepCell CellAt(const SweepAxes& axes, size_t place) {
  SweepCell cell;
  cell.place = place;
  cell.device = place % axes.num_devices;
  cell.method = place / axes.num_devices % axes.num_methods;
  cell.head = place / axes.num_devices / axes.num_methods;
  return cell;
}

}  // namespace

int32_t HeadsAtOnce(const Device& device, int64_t bytes) {
  constexpr int64_t kMostOnCpu = 4;
  if (device.is_gpu()) return 1;
  return static_cast<int32_t>(std::clamp<int64_t>(MostMeasuredBytes() / std::max<int64_t>(1, bytes), 1, kMostOnCpu));
}

int64_t LargestHeadBytes(const data::TraceReader& trace, const std::vector<HeadId>& heads) {
  int64_t most = 0;
  for (const HeadId& head : heads) {
    const int64_t packed =
        trace.num_tokens() * trace.layer(trace.LayerSlot(head.layer)).head_dim * int64_t{sizeof(float)};
    most = std::max(most, MeasuredBytes(trace, head.layer, 1, 1) + packed);
  }
  return most;
}

Status SweepCells(const SweepAxes& axes, const SweepOptions& options,
                  const std::function<Status(const SweepCell& cell)>& run) {
  const auto count = static_cast<int64_t>(axes.NumCells());
  const int32_t num_threads = kernels::NumWorkers(options.num_threads, std::numeric_limits<int32_t>::max());
  const int32_t at_once = std::min(kernels::NumWorkers(std::max(1, options.most_at_once), count), num_threads);
  Ledger ledger(axes.NumCells(), options);
  const bool all = kernels::ParallelFor(count, at_once, options.stop, [&](int64_t index, int32_t worker) {
    if (ledger.Ended()) return;
    SweepCell cell = CellAt(axes, static_cast<size_t>(index));
    cell.num_threads = (num_threads + at_once - 1 - worker) / at_once;
    cell.report = [&ledger, place = cell.place](double share) { ledger.Report(place, share); };
    Status status;
    try {
      status = run(cell);
    } catch (const CancelledError& stopped) {
      status = StatusOf<Status>(stopped);
    } catch (const Error& refused) {
      if (!options.failed) throw;
      status = StatusOf<Status>(refused);
    } catch (const std::bad_alloc&) {
      if (!options.failed) throw;
      status = {StatusCode::kOutOfMemory, "not enough memory; close other programs, or take fewer heads or tokens"};
    } catch (const std::exception& thrown) {
      if (!options.failed) throw;
      status = {StatusCode::kDeviceError, thrown.what()};  // a failure of no kind
    }
    if (status.ok()) return ledger.Finish(cell.place);
    ledger.Fail(cell, status);
  });
  if (!ledger.status().ok()) return ledger.status();
  return all ? Status{} : kernels::Stopped();
}

}  // namespace headscope::analysis
