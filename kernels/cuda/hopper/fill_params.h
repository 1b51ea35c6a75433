// SPDX-License-Identifier: Apache-2.0
// What a call's problem, index and outputs say to the 16-bit kernels, packed sequences or not; descriptors and places
// are the caller's.
#pragma once

#include <numbers>

#include "hopper/kernel_params.h"
#include "hopper/work_queue.h"
#include "kernels/attention_problem.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels::hopper {

inline void FillParams(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                       KernelParams* params) {
  params->index = index;
  params->lse = output.lse;
  params->row_max = output.row_max;
  params->sinks = SinksOf(problem);
  CountItems(problem, index, params);
  params->head_dim = problem.head_dim;
  params->value_dim = problem.ValueDim();
  const float scale = problem.EffectiveScale();
  params->soft_cap = problem.soft_cap;
  params->score_scale = problem.soft_cap > 0 ? scale / problem.soft_cap : 0.0f;
  params->scale_log2 = (problem.soft_cap > 0 ? 1.0f : scale) * std::numbers::log2e_v<float>;
}

}  // namespace headscope::kernels::hopper
