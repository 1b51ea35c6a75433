// SPDX-License-Identifier: Apache-2.0
// The search of BoundOfBest (internal/row_math.h), whatever counts the scores.
#pragma once

#include <bit>
#include <cstdint>

namespace headscope::kernels {

// `low` to `high`, the largest score, neither negative; not_below(bound): how many scores reach a bound.
template <class NotBelow>
float HalvedBound(float low, float high, int64_t k, const NotBelow& not_below) {
  // Floats that are not negative have the order of their bits. k or more reach `reached`; none lies beyond `missed`.
  auto reached = std::bit_cast<uint32_t>(low);
  for (uint32_t missed = std::bit_cast<uint32_t>(high) + 1; missed - reached > 1;) {
    const uint32_t middle = reached + (missed - reached) / 2;
    const int64_t found = not_below(std::bit_cast<float>(middle));
    (found >= k ? reached : missed) = middle;
    if (found == k) break;
  }
  return std::bit_cast<float>(reached);
}

}  // namespace headscope::kernels
