// SPDX-License-Identifier: Apache-2.0
// What Quest's kernels are called with (kernels/cuda_quest.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "decode/decode_params.h"

namespace headscope::kernels::decode {

constexpr int kScoreBlocks = 3;  // that score pages on a multiprocessor at once

struct QuestParams {
  DecodeOperands x;
  void* bounds;  // [lists, pages, 2, head_dim]
  int64_t bounds_list;
  int32_t lists, page_size, num_pages;
  int32_t first_page;  // of an update
  int32_t pages_each;  // of a block that scores
  bool mean_query;
  bool leaves_cache_first;  // the bounds are the first to leave L2 again, as K and V in dense decode
  // The best `picks` of the first `candidates` pages and, where they are not all, the newest.
  int32_t candidates, picks;
  bool newest;
  float* scores;        // [lists, num_pages]
  int64_t* page_begin;  // [lists + 1]
  int32_t* pages;       // [lists, picks + newest]
};

// The first CUDA error, or cudaSuccess.
template <typename T>
cudaError_t LaunchPageBounds(const QuestParams& params, int head_dim, cudaStream_t stream);
template <typename T>
cudaError_t LaunchPageScores(const QuestParams& params, int head_dim, cudaStream_t stream);
// Behind LaunchPageScores in one chain (dependent_launch.cuh).
cudaError_t LaunchPickPages(const QuestParams& params, cudaStream_t stream);

}  // namespace headscope::kernels::decode
