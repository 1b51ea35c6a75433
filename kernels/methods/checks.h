// What every selector and the reference executors ask of their input before they read it.
#pragma once

#include "kernels/attention_problem.h"
#include "kernels/method.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels::internal {

// Shapes, strides, scale; Q and K present (V too when `reads_v`). kInvalidArgument names the field and what is allowed.
Status CheckProblem(const AttentionProblem& problem, bool reads_v);

// A selector's input: CheckProblem, every query at a position that has a key (first_position + seq_q <= seq_k), and
// every parameter of `spec` present and in its range.
Status CheckSelectorInput(const AttentionProblem& problem, const MethodSpec& spec, const ParameterValues& values,
                          bool reads_v);

// An executor's input: the index is valid and of the problem's shape; the selection likewise; the output has a place
// for every row.
Status CheckIndexOfProblem(const AttentionProblem& problem, const SparseIndexView& index);
Status CheckSelectionOfProblem(const AttentionProblem& problem, const DecodeSelection& selection);
Status CheckOutput(const AttentionProblem& problem, const AttentionOutput& output);

}  // namespace headscope::kernels::internal
