// SPDX-License-Identifier: Apache-2.0
// The dot product of two short vectors, for what a method computes a few times a step; scores go through ScoreBlock.
#pragma once

#include <cstddef>

namespace headscope::kernels::internal {

// Lanes side by side, so that the compiler makes vector code of it; a fixed order of addition.
inline float Dot(const float* a, const float* b, size_t width) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes] = {};
  size_t d = 0;
  for (; d + kLanes <= width; d += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) lanes[i] += a[d + i] * b[d + i];
  }
  float sum = 0;
  for (; d < width; ++d) sum += a[d] * b[d];
  for (const float lane : lanes) sum += lane;
  return sum;
}

}  // namespace headscope::kernels::internal
