// SPDX-License-Identifier: Apache-2.0
// Tensors without gaps: strides from a shape.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/attention_problem.h"

namespace headscope::kernels {

// [batch, num_heads, num_rows, head_dim] at `data`, whatever the batch. Void is `void` or `const void`.
template <typename Void>
StridedTensor<Void> ContiguousTensor(std::type_identity_t<Void>* data, int64_t num_heads, int64_t num_rows,
                                     int64_t head_dim) {
  static_assert(std::is_void_v<Void>);
  return {data, num_heads * num_rows * head_dim, num_rows * head_dim, head_dim};
}

// Gives a problem, whose shape is set, contiguous tensors. `v` is null where nothing reads V.
inline void SetContiguousTensors(const void* q, const void* k, const void* v, AttentionProblem* problem) {
  problem->q = ContiguousTensor<const void>(q, problem->num_qo_heads, problem->seq_q, problem->head_dim);
  problem->k = ContiguousTensor<const void>(k, problem->num_kv_heads, problem->seq_k, problem->head_dim);
  problem->v = ContiguousTensor<const void>(v, problem->num_kv_heads, problem->seq_k, problem->ValueDim());
}

}  // namespace headscope::kernels
