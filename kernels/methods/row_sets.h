// SPDX-License-Identifier: Apache-2.0
// Keys that single rows choose, which an index holds for 64 rows together: these keep what any of them chose.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/run_options.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels::internal {

inline constexpr int32_t kRowsOfSet = 64;

// The lists of one head. mark(row_begin, row_end, kept) marks, by 1, the keys that query rows [row_begin, row_end)
// keep, of `kept` [visible keys], all 0 before; keys in a row's future are left out here.
using MarkKeys = std::function<void(int32_t row_begin, int32_t row_end, std::vector<char>* kept)>;
void AddRowSets(const AttentionProblem& problem, const RunOptions& options, const MarkKeys& mark,
                SparseIndexBuilder* builder);

}  // namespace headscope::kernels::internal
