// SPDX-License-Identifier: Apache-2.0
// One loop under everything that is done for many heads, methods and devices: statistics, searches, measurements.
//
// Method: cells are numbered with the head as the slowest axis and the device as the fastest, and begin in that order.
// Results keep the order, whichever cell ends first. Cells that are timed run one at a time (most_at_once 1), so that
// their times are their own; others share the threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "analysis/head_tensors.h"
#include "data/trace_reader.h"
#include "kernels/status.h"

namespace headscope::analysis {

// The lengths of the three axes.
struct SweepAxes {
  size_t num_heads = 0, num_methods = 1, num_devices = 1;
  size_t NumCells() const { return num_heads * num_methods * num_devices; }
};

struct SweepCell {
  size_t head = 0, method = 0, device = 0;  // places on the axes
  size_t place = 0;                         // among the results
  int32_t num_threads = 1;                  // the cell's part of the sweep's
  // The share of the cell that is done, 0 to 1, rising. On the cell's thread, as often as it likes.
  std::function<void(double share)> report;
};

struct SweepProgress {
  size_t done = 0, total = 0;  // cells
  double share = 0;            // 0 to 1, with the parts of cells that are under way

  // 100 when the last cell has ended, and not before: a progress line takes it for the end.
  int64_t Percent() const { return done == total ? 100 : std::min<int64_t>(99, static_cast<int64_t>(100 * share)); }
};

struct SweepOptions {
  int32_t num_threads = 0;   // of all cells together; 0: all cores
  int32_t most_at_once = 1;  // cells under way at the same time
  std::stop_token stop = {};
  // One call at a time, on any of the sweep's threads. May be empty.
  std::function<void(const SweepProgress&)> progress = {};
  // Told of a cell that failed, by a status or by an exception, which is made a status of its kind; the others go on.
  // Empty: the first failure ends the sweep. One call at a time.
  std::function<void(const SweepCell& cell, const kernels::Status& why)> failed = {};
};

// Cells whose heads are wholly in memory that are worth having under way at once: not all of one head's work is done by
// several threads, and each holds its own tensors, some 200 MiB at 128K tokens. As many as half of the free memory
// holds, and one where they go to a GPU. `bytes`: what a cell holds at most.
int32_t HeadsAtOnce(const Device& device, int64_t bytes);
// What one head of these takes at most, as HeadTensors and packed for the score kernel.
int64_t LargestHeadBytes(const data::TraceReader& trace, const std::vector<HeadId>& heads);

// Runs every cell. kCancelled when `stop` was requested or a cell said so, by its status or a CancelledError; without
// options.failed also the status of the cell that failed, and what else a cell throws goes through as what it is. Cells
// under way are then finished, and no other begins.
kernels::Status SweepCells(const SweepAxes& axes, const SweepOptions& options,
                           const std::function<kernels::Status(const SweepCell& cell)>& run);

// The same with a result a cell: run(cell, &result). (*results)[cell.place] is empty where the cell has not been done.
template <typename Result, typename Run>
kernels::Status Sweep(const SweepAxes& axes, const SweepOptions& options, Run&& run,
                      std::vector<std::optional<Result>>* results) {
  results->assign(axes.NumCells(), std::nullopt);
  return SweepCells(axes, options, [&](const SweepCell& cell) {
    Result result;
    kernels::Status status = run(cell, &result);
    if (status.ok()) (*results)[cell.place] = std::move(result);
    return status;
  });
}

}  // namespace headscope::analysis
