// SPDX-License-Identifier: Apache-2.0
// Quest's step in one launch, compute capability 9.0.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "decode/decode_params.h"

namespace headscope::kernels::decode {

struct QuestStepParams {
  DecodeOperands x;
  float soft_cap;
  float* lse;          // [batch, num_qo_heads], may be null
  float* row_max;      // likewise
  const void* bounds;  // [lists, pages, 2, head_dim]
  int64_t bounds_list;
  int32_t* pages;  // [lists, picks + newest], may be null
  int32_t lists, page_size, num_pages;
  // The best `picks` of the first `candidates` pages and, where they are not all, the newest.
  int32_t candidates, picks;
  bool newest, mean_query;
  bool bounds_leave_first, rows_leave_first;  // L2 again, as K and V in dense decode
  Divisor by_kv_heads, by_page;
};

struct QuestStepDevice {
  int num_multiprocessors;
  int shared_of_block, shared_of_multiprocessor;  // bytes
};

// Launches the step and sets *launched, or leaves both alone: where code for older GPUs would run, the lists do not
// fill the GPU evenly, or what the step chooses from does not fit shared memory. Returns the first CUDA error.
template <typename T>
cudaError_t LaunchQuestStep(const WithSinks<QuestStepParams>& params, int head_dim, const QuestStepDevice& device,
                            cudaStream_t stream, bool* launched);

}  // namespace headscope::kernels::decode
