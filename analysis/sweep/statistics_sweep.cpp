// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "analysis/head_sweeps.h"

namespace headscope::analysis {

using kernels::Status;

Status SweepStatistics(const data::TraceReader& trace, const std::vector<HeadId>& heads, const Device& device,
                       const StatisticsOptions& options, const SweepOptions& sweep, const LookAtStatistics& look,
                       std::vector<HeadStatistics>* results) {
  SweepOptions together = sweep;
  together.most_at_once = HeadsAtOnce(device, LargestHeadBytes(trace, heads));
  std::vector<std::optional<HeadStatistics>> made;
  const auto compute = [&](const SweepCell& cell, HeadStatistics* statistics) -> Status {
    const HeadTensorsPtr head = LoadHead(trace, heads[cell.head], device);
    StatisticsOptions of_cell = options;
    of_cell.num_threads = cell.num_threads;
    of_cell.stop = sweep.stop;
    *statistics = ComputeStatistics(*head, of_cell);
    if (look) look(cell.head, *head, *statistics);
    return {};
  };
  if (Status status = Sweep(SweepAxes{.num_heads = heads.size()}, together, compute, &made); !status.ok())
    return status;
  results->clear();
  for (std::optional<HeadStatistics>& statistics : made) {
    if (statistics) results->push_back(std::move(*statistics));
  }
  return {};
}

}  // namespace headscope::analysis
