// SPDX-License-Identifier: Apache-2.0
// What the kernels of a decode step over any selection are called with (kernels/cuda_decode_selection.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "decode/decode_params.h"

namespace headscope::kernels::decode {

constexpr int kSelectionWarps = 4;

struct SelectionParams {
  DecodeOperands x;
  float soft_cap;
  float* lse;          // may be null
  float* row_max;      // likewise, and is null where there are weights, whose logarithms scores have here
  int32_t first_seen;  // token; the window hides those before it
  int32_t page_size;
  const int64_t* page_begin;
  const int32_t* pages;
  const float* weights;   // may be null
  int64_t weight_stride;  // between the rows of weights of a KV head's query heads; 0: they share one
  const float* alpha;     // may be null, and mean then too
  const float* mean;
  int32_t lists;
  int32_t head_blocks;  // of a KV head: each takes at most so many query heads as its kernel has places for
  int32_t stretches;    // of a list
  int32_t stretch;      // tokens
  int32_t head_dim, value_dim;
  // With one stretch nothing of it is used: [batch * num_qo_heads, stretches, v_head_dim], and maximum (base 2) and
  // sum.
  float* part_o;
  float2* part_sum;

  // For the tensor cores (selection_tiles.cuh) alone: shares of the steps of lists that are all as long as the longest.
  // part_o and part_sum are then [blocks, 2, part_columns], of four components each.
  DenseParams tiles;
  int32_t part_columns;
  Divisor by_page;
  int32_t pages_of_list;  // of every list, or 0: page_begin says
  bool chained;           // launched behind a kernel of the same chain (dependent_launch.cuh)
};

// Whether the tensor cores take the step: then `tiles` and what belongs to it are set.
constexpr bool RunsOnTiles(int head_dim, int value_dim, bool fp32) {
  return !fp32 && head_dim == value_dim && (head_dim == 64 || head_dim == 128);
}

constexpr int kMaxSelectionDim = 576, kMaxSelectionValueDim = 512;  // multiples of 8
// Up to here a lane's part of a row is so short that it has 8 query heads' at once.
constexpr int kWideSelectionDim = 256;

// Query heads that a block has places for, of a group.
constexpr int SelectionHeads(int group, int head_dim, int value_dim) {
  if (group == 1) return 1;
  return group <= 4 || head_dim > kWideSelectionDim || value_dim > kWideSelectionDim ? 4 : 8;
}

// The first CUDA error, or cudaSuccess.
template <typename T>
cudaError_t LaunchSelection(const WithSinks<SelectionParams>& params, cudaStream_t stream);

}  // namespace headscope::kernels::decode
