// SPDX-License-Identifier: Apache-2.0
// What methods share that keep whole blocks of keys for a block of query rows: means of blocks, and the lists.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/cpu_scores.h"
#include "kernels/run_options.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels::internal {

// Means of blocks of `block` rows of a [num_rows, head_dim] tensor whose row 0 is element `offset`: [num_blocks,
// head_dim] fp32. The last block is the mean of the rows that there are. Sums are in double: the mean of equal rows is
// that row.
std::vector<float> PoolRows(const StridedTensor<const void>& tensor, DType dtype, int64_t offset, int32_t num_rows,
                            int32_t head_dim, int32_t block);

// As above, of the visible keys of a KV head, packed for ScoreBlock.
PackedKeys PoolVisibleKeys(const AttentionProblem& problem, int32_t sequence, int32_t kv_head, int32_t block);

// In place: the softmax of the first `count` scores; 0 behind them.
void SoftmaxInPlace(float* scores, int64_t count, int64_t size);

// Query rows [row_begin, row_end) of a problem, and their positions.
struct QueryBlock {
  int32_t number = 0;  // of the problem's blocks
  int32_t row_begin = 0, row_end = 0;
  int64_t first_position = 0, last_position = 0;

  // Key blocks of `size` tokens that begin in the past of the block's last row: those that it may keep.
  int32_t NumKeyBlocks(int32_t size) const { return static_cast<int32_t>(last_position / size) + 1; }
  // The first of those that hold a position of the block itself, "the diagonal"; the last is NumKeyBlocks - 1.
  int32_t FirstOwn(int32_t size) const { return static_cast<int32_t>(first_position / size); }
};
QueryBlock BlockOfRows(const AttentionProblem& problem, int32_t number, int32_t rows);

// The lists of one head, from the key blocks of `size` tokens that each block of `rows` query rows (64 or 128) keeps.
// choose(query block, blocks) appends them, in any order and also twice.
using ChooseBlocks = std::function<void(const QueryBlock& rows, std::vector<int32_t>* blocks)>;
void AddBlockLists(const AttentionProblem& problem, const RunOptions& options, int32_t rows, int32_t size,
                   const ChooseBlocks& choose, SparseIndexBuilder* builder);

// Appends the key blocks of the diagonal.
void AppendOwnBlocks(const QueryBlock& rows, int32_t size, std::vector<int32_t>* blocks);

}  // namespace headscope::kernels::internal
