// SPDX-License-Identifier: Apache-2.0
// One run of a method's executor on one head, made anew whenever a parameter moves: what it took that time and how far
// its output is from dense attention's. A measured run (MethodResult) repeats both until their times are to be trusted.
#pragma once

#include <cstdint>
#include <string>

#include "base/device.h"

namespace headscope::analysis {

struct LiveRun {
  double attend_ms = 0;          // of one run; of a decode method, of one step; 0: not timed yet, and what is below of
                                 // times is 0 as well
  int32_t rounds = 0;            // more than 0: it and dense attention's are medians of so many, taken in turn
  double checked_attend_ms = 0;  // of the checked rows alone, on one core; 0: all rows were checked
  double dense_attend_ms = 0;    // of dense attention, as what stands above it: of all rows, or of the checked ones on
                                 // one core; the median of a few, the newest beside this run or a moment before
  int32_t dense_times = 0;       // behind it, of a prefill method that was not timed in turn with it
  double dense_age_s = 0;        // of the oldest of them when this run ended
  double relative_error = 0;     // |O - O_dense| / |O_dense|, L2 over the checked rows
  double max_error = 0;          // largest absolute difference
  int64_t checked_rows = 0;      // rows, or decode steps, behind the two
  int64_t num_rows = 0;          // all of them
  NamedDevice device;            // where it ran
  std::string note;              // why it did not run on the GPU that the machine has; else empty

  bool is_timed() const { return attend_ms > 0; }
};

}  // namespace headscope::analysis
