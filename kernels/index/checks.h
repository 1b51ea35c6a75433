// SPDX-License-Identifier: Apache-2.0
// What every selector and the reference executors ask of their input before they read it.
#pragma once

#include "kernels/attention_problem.h"
#include "kernels/decode_selection.h"
#include "kernels/method_spec.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels::internal {

// Shapes, strides, scale; Q and K present (V too when `reads_v`). kInvalidArgument names the field and what is allowed.
Status CheckProblem(const AttentionProblem& problem, bool reads_v);

// Every query has a key at its own position: first_position + seq_q <= seq_k.
Status CheckPositions(const AttentionProblem& problem);

// One query, the newest token: seq_q == 1 and first_position == seq_k - 1.
Status CheckDecodeStep(const AttentionProblem& problem);

// Every parameter of `spec` is present and in its range.
Status CheckValues(const MethodSpec& spec, const ParameterValues& values);

// An executor's input: the index is valid and of the problem's shape; the selection likewise; the output has a place
// for every row.
Status CheckIndexOfProblem(const AttentionProblem& problem, const SparseIndexView& index);
// An executor that does not take keys without some of their components says so here: kUnsupported.
Status CheckSelectionOfProblem(const AttentionProblem& problem, const DecodeSelection& selection,
                               bool takes_components = false);
Status CheckOutput(const AttentionProblem& problem, const AttentionOutput& output);

}  // namespace headscope::kernels::internal
