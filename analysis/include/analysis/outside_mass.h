// SPDX-License-Identifier: Apache-2.0
// What rows of a cut trace give to tokens that the trace does not hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "analysis/head_tensors.h"

namespace headscope::analysis {

// Summed over rows [begin, end); `inside` is the head's MassInTrace. What a row that sees all its keys lacks went to
// the head's learned sink, and is not outside.
inline double SumOfOutsideMass(const HeadTensors& head, const std::vector<double>& inside, int64_t begin, int64_t end) {
  double sum = 0;
  for (int64_t row = begin; row < end; ++row) {
    if (head.SeesAllItsKeys(row)) continue;
    sum += std::max(0.0, 1 - inside[static_cast<size_t>(row)] - head.SinkMass(row));
  }
  return sum;
}

// The same as a mean; 0 of no rows.
inline double MeanOutsideMass(const HeadTensors& head, const std::vector<double>& inside, int64_t begin, int64_t end) {
  return SumOfOutsideMass(head, inside, begin, end) / static_cast<double>(std::max<int64_t>(end - begin, 1));
}

}  // namespace headscope::analysis
