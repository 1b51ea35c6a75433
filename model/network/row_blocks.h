// SPDX-License-Identifier: Apache-2.0
// What is made for every pair of a row and a key is made for a block of rows at a time. Without LibTorch: the plan of a
// model's memory counts such a block, too.
#pragma once

#include <algorithm>
#include <cstdint>

namespace headscope::model {

inline constexpr int64_t kBlockScores = int64_t{64} << 18;  // 64 MB of fp32

// Rows of a block, of `rows` that have so many scores each: one at the least.
inline int64_t RowsOfBlock(int64_t scores_of_row, int64_t rows, int64_t block_scores = kBlockScores) {
  return std::clamp<int64_t>(block_scores / scores_of_row, 1, rows);
}

}  // namespace headscope::model
