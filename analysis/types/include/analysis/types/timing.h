// SPDX-License-Identifier: Apache-2.0
// Repeated measurement: median and median absolute deviation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "analysis/types/comparison.h"
#include "base/stopwatch.h"

namespace headscope::analysis {

inline double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

inline Timing SummariseTimes(const std::vector<double>& milliseconds) {
  Timing timing;
  timing.median_ms = Median(milliseconds);
  std::vector<double> deviations;
  deviations.reserve(milliseconds.size());
  for (const double value : milliseconds) deviations.push_back(std::fabs(value - timing.median_ms));
  timing.mad_ms = Median(std::move(deviations));
  timing.repeats = static_cast<int32_t>(milliseconds.size());
  return timing;
}

}  // namespace headscope::analysis
