// SPDX-License-Identifier: Apache-2.0
// The generation steps that decode methods are compared on.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/head_tensors.h"
#include "analysis/measured_heads.h"
#include "kernels/decode_policy.h"
#include "kernels/status.h"

namespace headscope::analysis {

// What was recorded of the rows and tokens of a problem beside its tensors; empty: unknown.
struct RecordedRows {
  std::span<const float> lse = {};               // [num_qo_heads, num_rows]
  std::span<const float> q_pre_rope = {};        // [num_qo_heads, num_rows, head_dim]
  std::span<const float> value_norms = {};       // [num_qo_heads, num_tokens]
  std::span<const MeasuredHeadsPtr> lower = {};  // the same heads of lower layers
};
RecordedRows RecordedOf(const MeasuredHeads& heads);

// A step is one of the last recorded rows: its query, of every head of a problem, over the keys and values up to its
// own position, as far back as the model's window reaches.
class DecodeSteps {
 public:
  // The last `rows` recorded rows, or all when there are fewer.
  DecodeSteps(const HeadFrame& frame, HeadId first_head, int32_t rows);

  // kUnsupported, of the head that was `asked` for, when there is no step, or when a step's query has no key of its
  // own.
  kernels::Status Check(HeadId asked) const;

  int64_t count() const { return count_; }
  int64_t Row(int64_t step) const { return first_row_ + step; }
  // The first token that the step's query sees; token 0 of the step's problem.
  int32_t FirstToken(int64_t step) const { return frame_.AttendedColumns(Row(step)).begin; }

  // The step's part of the whole problem, wherever its tensors are.
  kernels::AttentionProblem Problem(const kernels::AttentionProblem& whole, int64_t step) const;

  // What a generation of these steps begins with: K and V of the tokens that the first step sees before its own, and
  // the recorded rows that stand right before it. `recorded` is the whole problem's.
  kernels::DecodePrompt Prompt(const kernels::AttentionProblem& whole, const RecordedRows& recorded) const;
  kernels::DecodeStep Step(const kernels::AttentionProblem& whole, int64_t step) const;

  // Share of a head's attention at the step, by the recorded LSE, that lies on these tokens of the step's problem.
  double KeptMass(const HeadTensors& head, int64_t step, std::span<const int32_t> tokens) const;
  // The share that lies on tokens before a cut trace's first.
  double OutsideMass(const HeadTensors& head, int64_t step) const;

 private:
  const HeadFrame& frame_;
  const HeadId first_head_;
  int64_t first_row_ = 0, count_ = 0;
};

}  // namespace headscope::analysis
