// SPDX-License-Identifier: Apache-2.0
// The key blocks that every row block of 128 queries keeps, from a number for each of its causal key blocks: the fewest
// that hold a share of their sum, the k best, or as many as their softmax stays within a share. Larger numbers first,
// equal ones by lower index; NaN is the least.
//
// A warp per row block. The cut is found bit by bit from above, 31 or 32 sums over the row in shared memory; sums are
// fp32 in one fixed order, so the same row gives the same cut, and a sum over more blocks is never smaller. Nothing is
// sorted.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace headscope::kernels::selection {

enum class BlockRule : uint8_t {
  kShare,  // numbers are masses, none below 0: the fewest that reach share * their sum; infinite or NaN ones count as 0
  kCount,  // the `count` largest
  kWithin,  // numbers are logits in base 2: the largest whose softmax adds up to `share` at most, one at least
};

struct TopBlocksParams {
  const float* scores = nullptr;  // [list, row block, num_key_blocks]
  int32_t num_lists = 0;          // batch * query heads
  int32_t num_row_blocks = 0;
  int32_t num_key_blocks = 0;
  int32_t seq_q = 0;
  int32_t first_position = 0;
  int32_t key_block_log2 = 7;  // 6 or 7
  BlockRule rule = BlockRule::kShare;
  double share = 0;  // of 1 and above: everything
  int32_t count = 0;
  // The first key block and those of the row block's own positions are kept and count towards the share; everything is
  // kept where the sum is no number. Of kShare only.
  bool force_ends = false;
  // 0 for key blocks that are kept unasked and for row blocks that keep everything; null: there are none. What is kept
  // unasked is no part of a sum and of no count.
  const uint8_t* key_counts = nullptr;  // [batch * KV head, num_key_blocks]
  const uint8_t* row_counts = nullptr;  // [list, row block]
  int32_t group_size = 1;               // query heads of a KV head
  uint64_t* bitmaps = nullptr;          // [list, row block, words]
  int32_t words = 0;                    // BlockBitmapWords(num_key_blocks)
};

constexpr int32_t BlockBitmapWords(int32_t num_key_blocks) {
  return num_key_blocks / 64 + 1;
}

// The most key blocks of a row, whose numbers lie in a thread block's shared memory.
int32_t MostTopBlocks(size_t shared_bytes);

cudaError_t LaunchTopBlocks(const TopBlocksParams& params, cudaStream_t stream);

}  // namespace headscope::kernels::selection
