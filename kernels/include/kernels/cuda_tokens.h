// SPDX-License-Identifier: Apache-2.0
// Attention over chosen tokens in the latent form of multi-head latent attention: all query heads share one head of
// keys of 576 components, the first 512 of which are the values, and each query has a list of tokens that holds for all
// its heads, as DeepSeek-V3.2's indexer makes it (DSA, notes in docs/kernels/tokens.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/status.h"

namespace headscope::kernels {

inline constexpr int32_t kLatentKeyDim = 576;
inline constexpr int32_t kLatentValueDim = 512;

// Device pointers; strides in elements. All tensors are bf16 but sinks, lse and row_max, which are fp32.
struct TokenAttention {
  int32_t num_queries = 0;
  int32_t num_keys = 0;      // rows of kv, which may be a cache of several sequences: lists name rows
  int32_t num_qo_heads = 0;  // any number; 64 at a time fill the tensor cores
  int32_t list_length = 0;   // entries of a list

  const void* q = nullptr;  // [num_queries, num_qo_heads, 576], aligned to 16 bytes
  int64_t q_query_stride = 0, q_head_stride = 0;
  const void* kv = nullptr;  // [num_keys, 576], aligned to 16 bytes
  int64_t kv_stride = 0;
  // [num_queries, list_length]: rows of kv in any order. What is below 0, or num_keys and more, is no token. A row
  // named twice counts twice.
  const int32_t* tokens = nullptr;
  int64_t tokens_stride = 0;
  const int32_t* counts = nullptr;  // [num_queries]: how many entries of a list count; null: all
  const float* sinks = nullptr;     // [num_qo_heads]: learned sinks' logits; null: none
  float scale = 0;                  // of scores; above 0

  void* o = nullptr;  // [num_queries, num_qo_heads, 512], aligned to 16 bytes
  int64_t o_query_stride = 0, o_head_stride = 0;
  float* lse = nullptr;      // [num_queries, num_qo_heads], natural log, with the sink; null: not wanted
  float* row_max = nullptr;  // [num_queries, num_qo_heads]: largest scaled score, without the sink; null: not wanted
};

// O = softmax(scale * q kv^T) kv[:, :512] over each query's list, with fp32 sums and weights rounded to bf16. A query
// that has no token gets O = 0 and the sink, or -inf, as its LSE; its row_max is -inf.
//
// Asynchronous on `stream` (a cudaStream_t), no host synchronisation, can be captured in a CUDA graph; the same bits
// every time. Memory: 4 bytes a query and a block of 64 heads, and 4 a query and head where row_max is not wanted, in
// the stream's order. Rows of kv that no list names may hold anything; NaN in a row reaches the queries that name it.
//
// Errors. kInvalidArgument names the field. kUnsupported: a GPU of another compute capability than 9.0. kDeviceMissing
// without a GPU or in a build without CUDA, kOutOfMemory, kDeviceError.
Status AttendTokensCuda(const TokenAttention& attention, void* stream);

}  // namespace headscope::kernels
