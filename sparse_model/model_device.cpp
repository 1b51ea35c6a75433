// SPDX-License-Identifier: Apache-2.0
#include "model_device.h"

#include <algorithm>

#include "base/element_type.h"

namespace headscope::sparse_model {

kernels::AttentionProblem ProblemOf(const model::AttentionCall& call) {
  const model::AttentionLayer& facts = *call.facts;
  const auto tensor = [](const model::AttentionCall::Tensor& from) {
    return kernels::StridedTensor<const void>{from.data, 0, from.head_stride, from.row_stride};
  };
  kernels::AttentionProblem problem;
  problem.num_qo_heads = facts.num_qo_heads;
  problem.num_kv_heads = facts.num_kv_heads;
  problem.layer = call.layer;
  problem.first_qo_head = call.first_qo_head;
  problem.first_kv_head = call.first_kv_head;
  problem.layer_group_size = call.layer_group_size;
  problem.head_dim = facts.head_dim;
  problem.v_head_dim = facts.v_head_dim;
  problem.seq_q = static_cast<int32_t>(call.num_rows);
  problem.seq_k = static_cast<int32_t>(call.num_tokens);
  problem.first_position = static_cast<int32_t>(call.num_tokens - call.num_rows);
  problem.dtype = KernelTypeOf<kernels::DType>(call.type);
  problem.q = tensor(call.q);
  problem.k = tensor(call.k);
  problem.v = tensor(call.v);
  problem.scale = static_cast<float>(facts.scale);
  problem.soft_cap = static_cast<float>(facts.soft_cap);
  problem.window = facts.window;
  if (!facts.sinks.empty()) problem.sinks = facts.sinks.data();
  return problem;
}

kernels::AttentionProblem StepFrom(kernels::AttentionProblem whole, int32_t first) {
  const auto from = [&](kernels::StridedTensor<const void> tensor) {
    tensor.data = static_cast<const char*>(tensor.data) + first * tensor.row_stride * SizeOf(whole.dtype);
    return tensor;
  };
  whole.k = from(whole.k);
  whole.v = from(whole.v);
  whole.seq_k -= first;
  whole.first_position -= first;
  whole.window = 0;
  return whole;
}

int32_t SeenFrom(const kernels::AttentionProblem& problem, int64_t row) {
  if (problem.window == 0) return 0;
  return static_cast<int32_t>(std::max<int64_t>(0, problem.first_position + row - problem.window + 1));
}

}  // namespace headscope::sparse_model
