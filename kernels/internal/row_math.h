// SPDX-License-Identifier: Apache-2.0
// Vector code of the methods that look at the scores of every row (kernels/cpu/row_math.cpp). Sums are taken in the
// order that the comments say.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::kernels::internal {

// row[i] = 2^(row[i] - the row's maximum), i < count: the softmax's weights of scores in base 2, scaled by log2(e).
// Returns their sum, which is 1 at least where the scores are finite. -infinity gives 0, where another score is larger.
float WeightsOfBase2(float* row, int64_t count);

// Softmax along the columns of scores in base 2, block of rows by block of rows, so that no more than a block is held.
// Matrices have kColumns columns, one row behind the other.
inline constexpr int64_t kColumns = 64;
// Of one block: every column's largest score, or the least float where all are -infinity, and the sum of
// 2^(score - largest).
void ColumnWeights(const float* scores, int64_t num_rows, float* largest, float* sums);
// largest, sums: [num_blocks, kColumns], as above. sums[block] becomes the block's share of its column's softmax.
void ColumnShares(const float* largest, int64_t num_blocks, float* sums);

// to[i] = row[i] * factor, i < count.
void StoreScaled(const float* row, int64_t count, float factor, float* to);

// sums[i] += row[i] * factor, i < count, rounded once where the machine has such an instruction.
void AddScaled(const float* row, int64_t count, float factor, float* sums);

// What blocks of four parts have of windows of two parts each: window w reaches over the parts w and w + 1, block b has
// the parts 4 b to 4 b + 3. A part is the sum of its two windows, the own one first, and a block the sum of its parts
// in ascending order; with `maximum` the largest of them all, and 0 where none is larger. A NaN is no maximum.
// windows: zeros at index -1, and from the number of windows on up to 4 * count rounded up to kPoolPadding.
inline constexpr int64_t kPoolPadding = 64;
void PoolWindows(const float* windows, int64_t count, bool maximum, float* blocks);

// A bound that k or more of the `count` scores reach, and mostly no more than k; `low` is one already, 0 or more, and
// the result is no smaller. By halving the bits between `low` and the largest score.
float BoundOfBest(const float* scores, int64_t count, int64_t k, float low);

// Ascending indices i < count with scores[i] >= bound, in *indices, whose size is changed.
void IndicesNotBelow(const float* scores, int64_t count, float bound, std::vector<int32_t>* indices);

}  // namespace headscope::kernels::internal
