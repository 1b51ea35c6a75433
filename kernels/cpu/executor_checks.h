// SPDX-License-Identifier: Apache-2.0
// What the CPU executors refuse, whatever they are made of.
#pragma once

#include <cstdint>
#include <string>

#include "index/checks.h"
#include "kernels/attention_problem.h"
#include "kernels/decode_selection.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"
#include "problem_view.h"

namespace headscope::kernels {

inline Status CheckAttend(const AttentionProblem& problem, const SparseIndexView& index,
                          const AttentionOutput& output) {
  Status status = internal::CheckIndexOfProblem(problem, index);
  if (status.ok()) status = internal::CheckOutput(problem, output);
  if (status.ok()) status = CheckCpuLimits(problem);
  if (status.ok() && problem.window > 0 && index.rule.kind == MaskKind::kNone) {
    status = {StatusCode::kUnsupported, "attention problem: window is " + std::to_string(problem.window) +
                                            ", allowed beside an index without an element rule is 0"};
  }
  return status;
}

inline Status CheckDecode(const AttentionProblem& problem, const DecodeSelection& selection,
                          const AttentionOutput& output) {
  Status status = internal::CheckSelectionOfProblem(problem, selection, /*takes_components=*/true);
  if (status.ok()) status = internal::CheckOutput(problem, output);
  if (status.ok()) status = CheckCpuLimits(problem);
  return status;
}

inline Status CheckRowLse(const AttentionProblem& problem, int32_t window, const float* lse) {
  Status status = internal::CheckProblem(problem, /*reads_v=*/false);
  if (status.ok()) status = CheckCpuLimits(problem);
  if (!status.ok()) return status;
  if (window < 0)
    return {StatusCode::kInvalidArgument, "window is " + std::to_string(window) + ", must be 0 (none) or more"};
  if (lse == nullptr)
    return {StatusCode::kInvalidArgument, "lse is null: give room for [batch, num_qo_heads, seq_q] floats"};
  return {};
}

}  // namespace headscope::kernels
