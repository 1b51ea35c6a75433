// SPDX-License-Identifier: Apache-2.0
// What a block kernel keeps of chosen columns and diagonals: MInference's index.
//
// Source: MInference 1.0, Algorithm 4. A block of 64 rows keeps each chosen column and, for diagonal o, the 64 columns
// that the diagonal crosses in it, causally.
//
// Differences from the algorithm as printed. Ranges are clipped at column 0. Overlapping ranges are joined exactly,
// where the printed merge grows by whole blocks and so names columns that no line touches. Columns right of the last
// range stay, where the printed loop ends with the ranges and loses them.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels::internal {

constexpr int32_t kLineBlockRows = 64;

// The lists of one head. columns, slashes: ascending; diagonal o holds the keys at position - o.
void AddLineLists(const AttentionProblem& problem, const RunOptions& options, const std::vector<int32_t>& columns,
                  const std::vector<int32_t>& slashes, SparseIndexBuilder* builder);

}  // namespace headscope::kernels::internal
