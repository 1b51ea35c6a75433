// SPDX-License-Identifier: Apache-2.0
// One head of a problem of several.
#pragma once

#include "kernels/attention_problem.h"

namespace headscope::analysis {

// One query head and its KV head, in place. `head` counts from the problem's first; batch 1.
inline kernels::AttentionProblem HeadOfProblem(const kernels::AttentionProblem& problem, int64_t head) {
  const auto at = [&](const kernels::StridedTensor<const void>& tensor, int64_t index) {
    return static_cast<const void*>(static_cast<const char*>(tensor.data) +
                                    index * tensor.head_stride * SizeOf(problem.dtype));
  };
  const int64_t kv_head = head / problem.GroupSize();
  kernels::AttentionProblem one = problem;
  one.layer_group_size = problem.LayerGroupSize();
  one.num_qo_heads = one.num_kv_heads = 1;
  one.first_qo_head += static_cast<int32_t>(head);
  one.first_kv_head += static_cast<int32_t>(kv_head);
  one.q.data = at(problem.q, head);
  one.k.data = at(problem.k, kv_head);
  one.v.data = at(problem.v, kv_head);
  if (problem.sinks != nullptr) one.sinks += head;
  return one;
}

}  // namespace headscope::analysis
