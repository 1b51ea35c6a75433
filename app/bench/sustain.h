// SPDX-License-Identifier: Apache-2.0
// Runs without a pause, on any clock.
#pragma once

#include <algorithm>
#include <stop_token>

#include "base/errors.h"
#include "base/stop.h"

namespace headscope::app::bench {

// batch(n) does n runs and returns what they took, in milliseconds. Batches are made to last about 50 ms, one run at
// least, until they come to `seconds`; the mean time of a run in the second half of them. Throws CancelledError.
template <typename Batch>
double Sustain(double seconds, const std::stop_token& stop, Batch&& batch) {
  constexpr double kBatchMs = 50;
  constexpr int kMostRuns = 100000;
  const double all_ms = 1e3 * seconds;
  double ms = 0, late_ms = 0, late_runs = 0;
  int runs = 1;
  do {
    StopIfAsked(stop);
    const double took = batch(runs);
    ms += took;
    if (ms >= all_ms / 2) {
      late_ms += took;
      late_runs += runs;
    }
    const double of_run = std::max(took / runs, 1e-4);
    runs = std::clamp(static_cast<int>(kBatchMs / of_run), 1, kMostRuns);
  } while (ms < all_ms);
  return late_ms / late_runs;
}

}  // namespace headscope::app::bench
