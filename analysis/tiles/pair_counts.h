// SPDX-License-Identifier: Apache-2.0
// Pairs under causality, counted in closed form.
#pragma once

#include <cstdint>

namespace headscope::analysis {

// 1 + 2 + .. + n; 0 for n <= 0.
inline int64_t Triangle(int64_t n) {
  return n > 0 ? n * (n + 1) / 2 : 0;
}

// Pairs (position, column) with column <= position, over positions [p0, p1) and columns [c0, c1).
inline int64_t CausalPairs(int64_t p0, int64_t p1, int64_t c0, int64_t c1) {
  return (Triangle(p1 - c0) - Triangle(p0 - c0)) - (Triangle(p1 - c1) - Triangle(p0 - c1));
}

}  // namespace headscope::analysis
