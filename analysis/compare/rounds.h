// SPDX-License-Identifier: Apache-2.0
// The timed rounds of a comparison: dense and every method, once each, in turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/types/timing.h"
#include "compare/round_order.h"
#include "kernels/parallel.h"
#include "kernels/status.h"
#include "kernels/stop_status.h"

namespace headscope::analysis {

// One entry of a round, and what its repeats took, milliseconds.
struct RoundEntry {
  std::string name;  // for reports
  // Runs once and says what selecting and attending took.
  std::function<kernels::Status(double* select_ms, double* attend_ms)> once;
  std::vector<double> select_ms, attend_ms;

  Timing Select() const { return SummariseTimes(select_ms); }
  Timing Attend() const { return SummariseTimes(attend_ms); }
};

// options.repeats rounds, and more while they have not taken options.least_ms together. Errors: kCancelled; an entry's.
inline kernels::Status RunRounds(const CompareOptions& options, kernels::Phase phase,
                                 std::vector<RoundEntry>* entries) {
  double total_ms = 0;
  for (int32_t round = 0;
       round < options.repeats || (total_ms < options.least_ms && round < kMostRepeats && !entries->empty()); ++round) {
    for (const size_t place : RoundOrder(round, entries->size())) {
      RoundEntry& entry = (*entries)[place];
      if (options.stop.stop_requested()) return kernels::Stopped();
      options.Report({entry.name, phase, round + 1, std::max(round + 1, options.repeats)});
      double select_ms = 0, attend_ms = 0;
      if (kernels::Status status = entry.once(&select_ms, &attend_ms); !status.ok()) return status;
      entry.select_ms.push_back(select_ms);
      entry.attend_ms.push_back(attend_ms);
      total_ms += select_ms + attend_ms;
    }
  }
  return {};
}

}  // namespace headscope::analysis
