// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "decode/decode_params.h"
#include "kernels/attention_problem.h"
#include "kernels/cuda_decode.h"

namespace headscope::kernels::decode {

// Where a step's tensors lie, as the kernels take it.
inline DecodeOperands OperandsOf(const AttentionProblem& problem, const AttentionOutput& output) {
  return {.q = problem.q.data,
          .k = problem.k.data,
          .v = problem.v.data,
          .o = output.o.data,
          .q_batch = problem.q.batch_stride,
          .q_head = problem.q.head_stride,
          .k_batch = problem.k.batch_stride,
          .k_head = problem.k.head_stride,
          .k_row = problem.k.row_stride,
          .v_batch = problem.v.batch_stride,
          .v_head = problem.v.head_stride,
          .v_row = problem.v.row_stride,
          .o_batch = output.o.batch_stride,
          .o_head = output.o.head_stride,
          .num_kv_heads = problem.num_kv_heads,
          .group = problem.GroupSize(),
          .seq_k = problem.seq_k,
          .scale = problem.EffectiveScale()};
}

// The same of a cache and what SparQ keeps beside it, either of which may be null.
inline AppendParams AppendOperandsOf(const AttentionProblem& problem, const TransposedKeys& transposed, float* mean) {
  return {.k = problem.k.data,
          .v = problem.v.data,
          .kt = transposed.data,
          .mean = mean,
          .k_batch = problem.k.batch_stride,
          .k_head = problem.k.head_stride,
          .k_row = problem.k.row_stride,
          .v_batch = problem.v.batch_stride,
          .v_head = problem.v.head_stride,
          .v_row = problem.v.row_stride,
          .kt_batch = transposed.batch_stride,
          .kt_head = transposed.head_stride,
          .kt_component = transposed.component_stride,
          .lists = problem.batch * problem.num_kv_heads,
          .num_kv_heads = problem.num_kv_heads,
          .head_dim = problem.head_dim,
          .seq_k = problem.seq_k};
}

}  // namespace headscope::kernels::decode
