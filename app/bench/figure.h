// SPDX-License-Identifier: Apache-2.0
// A figure from repeats: the middle, and how far the repeats lie from it.
#pragma once

#include <vector>

namespace headscope::app::bench {

struct Figure {
  double median = 0;
  double mad = 0;  // median absolute deviation from the median
  int repeats = 0;
  double least = 0;
};

// Of an even number of values, the mean of the two in the middle. No values: all 0.
Figure Summarize(const std::vector<double>& values);

}  // namespace headscope::app::bench
