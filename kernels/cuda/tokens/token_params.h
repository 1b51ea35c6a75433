// SPDX-License-Identifier: Apache-2.0
// What the kernel of attention over chosen tokens is launched with.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "divisor.h"

namespace headscope::kernels::tokens {

constexpr int kHeadRows = 64;  // query heads of an item, the rows of its tiles

struct TokenParams {
  CUtensorMap q;
  const void* kv;
  int64_t kv_stride;  // elements
  const int32_t* tokens;
  int64_t tokens_stride;
  const int32_t* counts;
  const float* sinks;
  void* o;
  int64_t o_query_stride, o_head_stride;
  float* lse;
  float* row_max;  // never null: a row that is done once more finds its largest score here
  int32_t* again;  // items that are done once more: their number, then which
  float scale;
  float scale_log2;
  int32_t num_queries;
  int32_t num_keys;
  int32_t num_qo_heads;
  int32_t list_length;
  int32_t head_blocks;  // of kHeadRows heads
  int32_t num_items;    // head_blocks of each query, one query's one after the other
  Divisor by_head_blocks;
};

// again: whether it does what the launch before has left to be done once more.
cudaError_t LaunchAttendTokens(const TokenParams& params, int num_blocks, bool again, cudaStream_t stream);

}  // namespace headscope::kernels::tokens
