// SPDX-License-Identifier: Apache-2.0
// Block-sparse's picks: Q and K are mean-pooled in blocks of 64 rows; every query block keeps its best causal key
// blocks, larger score first, equal scores by lower index. Scores that are not numbers come last: they need infinities
// or NaN in Q or K, or sums of rows beyond fp32.
//
// One launch, whose thread blocks take pieces of work in order until none is left. Pooling reads Q and K once, a warp
// per block (pool_block.cuh). Picking takes up to 48 query blocks of a head at a time: products on the tensor cores,
// scores to shared memory (pooled_scores.cuh), and then a warp per query block searches the cut and writes a bitmap
// (row_pick.cuh). While some pool a KV head and its query heads, which the memory limits, others pick from what was
// pooled before, which arithmetic limits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention_problem.h"

namespace headscope::kernels::selection {

constexpr int32_t kPoolRows = 64;

// Means as the products read them. A block's mean is scaled by a power of two, so that its largest component lies in
// [2^14, 2^15), and each component is the sum of two fp16 numbers, high and low: 22 bits of it, fewer only below 2^-28
// of the largest. Components go in steps of 32, blocks in groups of 8; of a step and a group, lane (block % 8) * 4 + j
// of a warp holds components 8 j to 8 j + 7 in 16 bytes.
constexpr int kTermGroup = 8;  // blocks
constexpr int kStepComponents = 32;
constexpr int kStepPieces = 64;  // of 16 bytes, per step and group: 32 of high terms, 32 of low terms

constexpr int32_t TermGroups(int32_t num_blocks) {
  return (num_blocks + kTermGroup - 1) / kTermGroup;
}
constexpr int32_t GroupPieces(int32_t head_dim) {
  return head_dim / kStepComponents * kStepPieces;
}

struct PooledBlocksParams {
  StridedTensor<const void> q;
  StridedTensor<const void> k;
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t seq_q = 0;
  int32_t first_position = 0;
  int32_t num_visible_keys = 0;
  int32_t num_query_blocks = 0;
  int32_t num_key_blocks = 0;
  int32_t num_kept = 0;         // per query block
  bool is_bf16 = true;          // else fp16
  uint4* q_terms = nullptr;     // [batch * qo head, TermGroups(num_query_blocks), GroupPieces(head_dim)]
  uint4* k_terms = nullptr;     // [batch * kv head, TermGroups(num_key_blocks), GroupPieces(head_dim)]
  float* k_factors = nullptr;   // [batch * kv head, FactorPitch()]: a mean is its terms times this; 0 where not finite
  int32_t* progress = nullptr;  // [1 + batch * num_kv_heads]: pieces of work taken, and pooled of each stage
  uint64_t* bitmaps = nullptr;  // [batch * qo head, query block, words]
  int32_t words = 0;            // num_key_blocks / 64 + 1

  constexpr int32_t FactorPitch() const { return TermGroups(num_key_blocks) * kTermGroup; }
  // A stage is a KV head of a sequence with its query heads.
  constexpr int32_t NumStages() const { return batch * num_kv_heads; }
};

// Query blocks whose scores a thread block holds: 48, 32, 16 or 8, whatever fits into `shared_bytes` of shared memory;
// 0 when not even 8 do.
int32_t QueryBlocksPerThreadBlock(const PooledBlocksParams& params, size_t shared_bytes);
// The most key blocks that fit at all.
int32_t MostKeyBlocks(int32_t head_dim, size_t shared_bytes);

cudaError_t LaunchPickBlocks(const PooledBlocksParams& params, int32_t query_blocks_per_thread_block,
                             int num_multiprocessors, cudaStream_t stream);

}  // namespace headscope::kernels::selection
