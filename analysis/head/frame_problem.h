// SPDX-License-Identifier: Apache-2.0
// The attention problem of recorded heads, one or many: what their frame says, with q, k and v in fp32, head behind
// head.
#pragma once

#include "analysis/head_tensors.h"
#include "kernels/attention_problem.h"
#include "kernels/contiguous.h"

namespace headscope::analysis {

// The window is no part of it: methods' indices are cut to it where they are chosen (compare/model_window.h). The
// caller sets the numbers of heads, and then the tensors (SetContiguousTensors), whose strides follow from them.
inline kernels::AttentionProblem FrameProblem(const HeadFrame& frame) {
  kernels::AttentionProblem problem;
  problem.layer_group_size = frame.layer_group_size;
  problem.head_dim = frame.head_dim;
  problem.v_head_dim = frame.v_head_dim;
  problem.seq_q = static_cast<int32_t>(frame.num_rows);
  problem.seq_k = static_cast<int32_t>(frame.num_tokens);
  problem.first_position = frame.row_positions.empty() ? 0 : frame.row_positions.front();
  problem.dtype = kernels::DType::kFloat32;
  problem.scale = frame.scale;
  problem.soft_cap = frame.soft_cap;
  return problem;
}

}  // namespace headscope::analysis
