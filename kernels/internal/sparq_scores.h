// SPDX-License-Identifier: Apache-2.0
// The vector code of SparQ's estimate and of the choice of the k best (kernels/cpu/sparq_scores.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention_problem.h"

namespace headscope::kernels::internal {

// Some keys of one KV head, one way or the other.
struct EstimateKeys {
  const void* data = nullptr;  // of token 0, component 0
  DType dtype = DType::kFloat32;
  int64_t stride = 0;                   // elements between components (by_component) or between tokens
  bool by_component = false;            // component-major: the tokens of a component lie side by side
  int32_t head_dim = 0;                 // of whole rows
  const int32_t* components = nullptr;  // [num_components], those that by_component reads
  int32_t num_components = 0;
};

// The query rows of a KV head, in the units of the scores: [num_rows, num_components] by component; otherwise
// [num_rows, row_floats], zero in the components that do not count, 64-byte aligned, row_floats head_dim rounded up
// to 16.
struct EstimateQueries {
  const float* data = nullptr;
  int32_t num_rows = 0;
  int64_t row_floats = 0;
};

// scores[row * score_stride + i] = cap(query row * key of token first + i), i < count; cap 0: none. scores: room for
// `count` rounded up to 4.
void EstimateScores(const EstimateKeys& keys, const EstimateQueries& queries, float soft_cap, int64_t first,
                    int64_t count, float* scores, int64_t score_stride);

// sums[i] = sum over rows of factors[row] * rows[row * stride + i], i < count.
void WeightedSum(const float* rows, int64_t stride, const float* factors, int32_t num_rows, int64_t count, float* sums);

// Ascending indices of some of `scores` that hold the k best of them, or nothing when it does not pay to look: k is not
// much less than `count`, or so many scores are NaN that k others may not be left. Method: the k-th largest of 4 k
// groups' largest scores is reached by at least k scores, and on scores in no special order by little more.
void CandidatesOfBest(const float* scores, int64_t count, int64_t k, std::vector<int32_t>* indices);

}  // namespace headscope::kernels::internal
