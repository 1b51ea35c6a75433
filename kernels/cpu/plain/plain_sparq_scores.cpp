// SPDX-License-Identifier: Apache-2.0
// internal/sparq_scores.h without vector code.
#include <algorithm>
#include <cmath>

#include "internal/element.h"
#include "internal/sparq_scores.h"

namespace headscope::kernels::internal {

void EstimateScores(const EstimateKeys& keys, const EstimateQueries& queries, float soft_cap, int64_t first,
                    int64_t count, float* scores, int64_t score_stride) {
  for (int64_t row = 0; row < queries.num_rows; ++row) {
    const float* const q = queries.data + row * queries.row_floats;
    const int32_t width = keys.by_component ? keys.num_components : keys.head_dim;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t token = first + i;
      double dot = 0;
      for (int32_t d = 0; d < width; ++d) {
        const int64_t at = keys.by_component ? keys.components[d] * keys.stride + token : token * keys.stride + d;
        dot += static_cast<double>(q[d]) * static_cast<double>(LoadElement(keys.data, keys.dtype, at));
      }
      const auto score = static_cast<float>(dot);
      scores[row * score_stride + i] = soft_cap > 0 ? soft_cap * std::tanh(score / soft_cap) : score;
    }
  }
}

void WeightedSum(const float* rows, int64_t stride, const float* factors, int32_t num_rows, int64_t count,
                 float* sums) {
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int64_t row = 0; row < num_rows; ++row) sum = std::fma(factors[row], rows[row * stride + i], sum);
    sums[i] = sum;
  }
}

// Looking at all scores is what a caller does by itself.
void CandidatesOfBest(const float* /*scores*/, int64_t /*count*/, int64_t /*k*/, std::vector<int32_t>* indices) {
  indices->clear();
}

}  // namespace headscope::kernels::internal
