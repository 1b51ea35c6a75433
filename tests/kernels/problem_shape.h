// SPDX-License-Identifier: Apache-2.0
// The shape of a test's attention problem.
#pragma once

#include <cstdint>

#include "kernels/attention_problem.h"

namespace headscope::kernels::test {

struct ProblemShape {
  int32_t batch = 1;
  int32_t num_qo_heads = 1;
  int32_t num_kv_heads = 1;
  int32_t head_dim = 64;
  int32_t seq_q = 1;
  int32_t seq_k = 1;
  int32_t first_position = 0;
  DType dtype = DType::kFloat32;
  float scale = 0;
  float soft_cap = 0;
};

// The problem but for its tensors.
inline AttentionProblem ProblemOf(const ProblemShape& shape) {
  AttentionProblem problem;
  problem.batch = shape.batch;
  problem.num_qo_heads = shape.num_qo_heads;
  problem.num_kv_heads = shape.num_kv_heads;
  problem.head_dim = shape.head_dim;
  problem.seq_q = shape.seq_q;
  problem.seq_k = shape.seq_k;
  problem.first_position = shape.first_position;
  problem.dtype = shape.dtype;
  problem.scale = shape.scale;
  problem.soft_cap = shape.soft_cap;
  return problem;
}

}  // namespace headscope::kernels::test
