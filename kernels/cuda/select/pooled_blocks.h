// Block-sparse's picks: Q and K are mean-pooled in blocks of 64 rows; every query block keeps its best causal key
// blocks, larger score first, equal scores by lower index. Scores that are not finite come last: they need infinities
// or NaN in Q or K, or sums beyond fp32.
//
// Two launches. The first reads Q and K once, a warp per block (pooled_blocks.cu). The second takes 16 query blocks of
// a head to a thread block: products on the tensor cores, scores to shared memory, and then a warp per query block
// searches the cut and writes a bitmap (pick_blocks.cu).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/attention_problem.h"

namespace headscope::kernels::selection {

constexpr int32_t kPoolRows = 64;

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
  float* pooled_q = nullptr;    // [batch * qo head, query block, head_dim]
  float* pooled_k = nullptr;    // [batch * kv head, key block, head_dim]
  uint64_t* bitmaps = nullptr;  // [batch * qo head, query block, words]
  int32_t words = 0;            // num_key_blocks / 64 + 1

  constexpr int64_t NumQueryBlocks() const { return int64_t{batch} * num_qo_heads * num_query_blocks; }
  constexpr int64_t NumBlocks() const { return NumQueryBlocks() + int64_t{batch} * num_kv_heads * num_key_blocks; }
};

// NumBlocks() < 2^31.
cudaError_t LaunchPoolBlocks(const PooledBlocksParams& params, cudaStream_t stream);

// Query blocks whose scores one thread block of the second launch holds: 16 where they fit into `shared_bytes` of
// shared memory, else 4; 0 when not even those fit.
int32_t QueryBlocksPerThreadBlock(const PooledBlocksParams& params, size_t shared_bytes);
// The most key blocks that fit at all.
int32_t MostKeyBlocks(int32_t head_dim, size_t shared_bytes);

cudaError_t LaunchPickBlocks(const PooledBlocksParams& params, int32_t query_blocks_per_thread_block,
                             cudaStream_t stream);

}  // namespace headscope::kernels::selection
