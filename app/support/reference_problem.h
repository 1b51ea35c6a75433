// SPDX-License-Identifier: Apache-2.0
// A problem of the kernels, as LibTorch's dense attention takes it.
#pragma once

#include "kernels/attention_problem.h"
#include "model/reference_attention.h"

namespace headscope::app {

// The same tensors, taken to be fp32 in host memory, with heads that lie without gaps between them.
inline model::ReferenceAttentionProblem ReferenceProblem(const kernels::AttentionProblem& problem) {
  model::ReferenceAttentionProblem reference;
  reference.q = problem.q.data;
  reference.k = problem.k.data;
  reference.v = problem.v.data;
  reference.batch = problem.batch;
  reference.num_qo_heads = problem.num_qo_heads;
  reference.num_kv_heads = problem.num_kv_heads;
  reference.head_dim = problem.head_dim;
  reference.seq_len = problem.seq_k;
  reference.seq_q = problem.seq_q;
  reference.scale = static_cast<double>(problem.scale);
  return reference;
}

}  // namespace headscope::app
