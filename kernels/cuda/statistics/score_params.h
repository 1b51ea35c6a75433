// SPDX-License-Identifier: Apache-2.0
// What the statistics kernels get: a checked problem, ready for the device, and how its blocks are laid out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "kernels/attention_problem.h"
#include "kernels/status.h"

namespace headscope::kernels::statistics {

inline constexpr int kTileRows = 128;
inline constexpr int kTileKeys = 64;

// Bytes of a row in shared memory: 16 of padding keep the rows of a matrix in different banks.
constexpr int RowBytes(int head_dim) {
  return head_dim * 2 + 16;
}

struct ScoreParams {
  const uint16_t* q;  // bf16 or fp16
  const uint16_t* k;
  int64_t q_batch_stride, q_head_stride, q_row_stride;  // elements
  int64_t k_batch_stride, k_head_stride, k_row_stride;
  int32_t num_sequence_heads;  // batch * num_qo_heads
  int32_t num_qo_heads, group_size;
  int32_t head_dim, seq_q, seq_k, first_position;
  int32_t window;      // 0: none
  int32_t key_stages;  // 2, or 1 where two do not fit shared memory
  float factor;        // of q.k: scale * log2(e), or scale / soft_cap
  float cap;           // soft_cap * log2(e); 0: none
  bool bfloat16;

  constexpr int64_t NumRowTiles() const { return (int64_t{seq_q} + kTileRows - 1) / kTileRows; }
  // Shared memory: queries, key stages, and what a kernel wants beside them.
  constexpr int64_t SharedBytes(int64_t extra) const {
    return int64_t{kTileRows + key_stages * kTileKeys} * RowBytes(head_dim) + extra;
  }
};

// An array that a call reads or writes, as its message names it.
struct NamedPointer {
  const char* name;
  const void* pointer;
  size_t alignment;  // bytes, of its elements

  template <typename T>
  NamedPointer(const char* array_name, const T* array) : name(array_name), pointer(array), alignment(alignof(T)) {}
};

// Checks `problem`, the arrays of a call on `stream` and the current device and fills `params`; extra_shared_bytes is
// what the kernel needs beside queries and keys. Errors: those of cuda_statistics.h; an array must be there and aligned
// to its elements.
Status MakeScoreParams(const AttentionProblem& problem, int32_t window, int64_t extra_shared_bytes,
                       std::initializer_list<NamedPointer> arrays, void* stream, ScoreParams* params);

}  // namespace headscope::kernels::statistics
