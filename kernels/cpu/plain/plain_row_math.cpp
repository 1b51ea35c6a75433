// SPDX-License-Identifier: Apache-2.0
// internal/row_math.h without vector code.
#include <algorithm>
#include <cmath>
#include <limits>

#include "halved_bound.h"
#include "internal/row_math.h"

namespace headscope::kernels::internal {

float WeightsOfBase2(float* row, int64_t count) {
  const float maximum = count == 0 ? 0.0f : *std::max_element(row, row + count);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    row[i] = std::exp2(row[i] - maximum);
    sum += static_cast<double>(row[i]);
  }
  return static_cast<float>(sum);
}

void ColumnWeights(const float* scores, int64_t num_rows, float* largest, float* sums) {
  for (int64_t column = 0; column < kColumns; ++column) {
    largest[column] = std::numeric_limits<float>::lowest();
    for (int64_t row = 0; row < num_rows; ++row)
      largest[column] = std::max(largest[column], scores[row * kColumns + column]);
    double sum = 0;
    for (int64_t row = 0; row < num_rows; ++row)
      sum += static_cast<double>(std::exp2(scores[row * kColumns + column] - largest[column]));
    sums[column] = static_cast<float>(sum);
  }
}

void ColumnShares(const float* largest, int64_t num_blocks, float* sums) {
  for (int64_t column = 0; column < kColumns; ++column) {
    float maximum = std::numeric_limits<float>::lowest();
    for (int64_t block = 0; block < num_blocks; ++block)
      maximum = std::max(maximum, largest[block * kColumns + column]);
    double total = 0;
    for (int64_t block = 0; block < num_blocks; ++block) {
      const int64_t at = block * kColumns + column;
      sums[at] *= std::exp2(largest[at] - maximum);
      total += static_cast<double>(sums[at]);
    }
    for (int64_t block = 0; block < num_blocks; ++block) sums[block * kColumns + column] /= static_cast<float>(total);
  }
}

void StoreScaled(const float* row, int64_t count, float factor, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = row[i] * factor;
}

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
  return HalvedBound(low, high, k, [&](float bound) {
    return std::count_if(scores, scores + count, [bound](float score) { return score >= bound; });
  });
}

void IndicesNotBelow(const float* scores, int64_t count, float bound, std::vector<int32_t>* indices) {
  indices->clear();
  for (int64_t i = 0; i < count; ++i) {
    if (scores[i] >= bound) indices->push_back(static_cast<int32_t>(i));
  }
}

}  // namespace headscope::kernels::internal
