// SPDX-License-Identifier: Apache-2.0
// internal/row_math.h without vector code.
#include <algorithm>
#include <bit>
#include <cmath>

#include "internal/row_math.h"

namespace headscope::kernels::internal {

void AddScaled(const float* row, int64_t count, float factor, float* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] = std::fma(row[i], factor, sums[i]);
}

void PoolWindows(const float* windows, int64_t count, bool maximum, float* blocks) {
  for (int64_t block = 0; block < count; ++block) {
    const float* const own = windows + 4 * block;  // own[-1] reaches into the block as well
    float pooled = 0;
    for (int part = 0; part < 4; ++part) {
      if (maximum) {
        for (const float share : {own[part - 1], own[part]}) pooled = share > pooled ? share : pooled;
      } else {
        pooled += own[part] + own[part - 1];
      }
    }
    blocks[block] = pooled;
  }
}

float BoundOfBest(const float* scores, int64_t count, int64_t k, float low) {
  float high = low;
  for (int64_t i = 0; i < count; ++i) high = scores[i] > high ? scores[i] : high;
  // Floats that are not negative have the order of their bits. k or more reach `reached`; none lies beyond `missed`.
  auto reached = std::bit_cast<uint32_t>(low);
  for (uint32_t missed = std::bit_cast<uint32_t>(high) + 1; missed - reached > 1;) {
    const uint32_t middle = reached + (missed - reached) / 2;
    const auto bound = std::bit_cast<float>(middle);
    const int64_t found = std::count_if(scores, scores + count, [bound](float score) { return score >= bound; });
    (found >= k ? reached : missed) = middle;
    if (found == k) break;
  }
  return std::bit_cast<float>(reached);
}

void IndicesNotBelow(const float* scores, int64_t count, float bound, std::vector<int32_t>* indices) {
  indices->clear();
  for (int64_t i = 0; i < count; ++i) {
    if (scores[i] >= bound) indices->push_back(static_cast<int32_t>(i));
  }
}

}  // namespace headscope::kernels::internal
