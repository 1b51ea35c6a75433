// SPDX-License-Identifier: Apache-2.0
// Means of blocks of rows, how alike a block's rows are, and the scores of the means: what SpargeAttn's choice is made
// from. Means and scores are fp32.
//
// Four launches: means of all blocks of Q and K, a warp each; the mean key of every KV head; where it is asked for, the
// likeness of every block's rows, which reads Q and K again, since the mean key comes off them first; and the scores, a
// thread block for 64 x 64 of them. Or in two parts, means of keys before what says whose queries want any.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention_problem.h"

namespace headscope::kernels::selection {

struct BlockScoresParams {
  StridedTensor<const void> q;
  StridedTensor<const void> k;
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  bool is_bf16 = true;  // else fp16
  int32_t seq_q = 0;
  int32_t first_position = 0;
  int32_t num_visible_keys = 0;
  int32_t query_block = 128;  // rows: 64 or 128
  int32_t key_block = 64;
  // Scores in base 2: cap == 0: dot * score_scale; else cap * tanh(dot * score_scale).
  float score_scale = 0;
  float cap = 0;
  bool centre = false;         // the mean key is taken off all keys
  bool likeness = false;       // q_alike and k_alike are made
  bool by_largest = false;     // likeness: the mean of all products of two rows by the largest, else the mean cosine
  double theta = 0;            // likeness above which rows are alike
  float* q_means = nullptr;    // [batch * query head, NumQueryBlocks(), head_dim]
  float* k_means = nullptr;    // [batch * KV head, NumKeyBlocks(), head_dim], before anything is taken off
  float* mean_keys = nullptr;  // [batch * KV head, head_dim]; zeros where `centre` is not set
  uint8_t* q_alike = nullptr;  // [batch * query head, NumQueryBlocks()]
  uint8_t* k_alike = nullptr;  // [batch * KV head, NumKeyBlocks()]
  float* scores = nullptr;     // [batch * query head, NumQueryBlocks(), NumKeyBlocks()], those of causal blocks
  // [batch * query head]: whose queries get means and scores where this is not 0; null: all.
  const uint8_t* wanted = nullptr;

  constexpr int32_t NumQueryBlocks() const { return (seq_q + query_block - 1) / query_block; }
  constexpr int32_t NumKeyBlocks() const { return (num_visible_keys + key_block - 1) / key_block; }
  constexpr int64_t NumLists() const { return int64_t{batch} * num_qo_heads; }
  constexpr int64_t NumKvLists() const { return int64_t{batch} * num_kv_heads; }
  constexpr int64_t NumBlocks() const { return NumLists() * NumQueryBlocks() + NumKvLists() * NumKeyBlocks(); }
  // Thread blocks of the scores' launch.
  constexpr int64_t NumScoreTiles() const {
    return NumLists() * ((NumQueryBlocks() + 63) / 64) * ((NumKeyBlocks() + 63) / 64);
  }
};

cudaError_t LaunchBlockScores(const BlockScoresParams& params, cudaStream_t stream);
// The same in two parts, without likeness: means of keys, which begin a chain of launches (dependent_launch.cuh), and
// what is left, behind whatever makes `wanted`.
cudaError_t LaunchKeyMeans(const BlockScoresParams& params, cudaStream_t stream);
cudaError_t LaunchWantedScores(const BlockScoresParams& params, cudaStream_t stream);

}  // namespace headscope::kernels::selection
