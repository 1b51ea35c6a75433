// SPDX-License-Identifier: Apache-2.0
#include "compare/decode_steps.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "analysis/tiles.h"
#include "analysis/types/rounding.h"
#include "head/head_checks.h"
#include "kernels/contiguous.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

const void* Offset(const void* data, int64_t elements, kernels::DType dtype) {
  return static_cast<const char*>(data) + elements * SizeOf(dtype);
}

}  // namespace

DecodeSteps::DecodeSteps(const HeadFrame& frame, HeadId first_head, int32_t rows)
    : frame_(frame), first_head_(first_head), count_(std::clamp<int64_t>(rows, 0, frame.num_rows)) {
  first_row_ = frame.num_rows - count_;
}

Status DecodeSteps::Check(HeadId asked) const {
  if (count_ > 0 && frame_.row_positions.back() < frame_.num_tokens) return {};
  return {StatusCode::kUnsupported,
          "head " + HeadName(asked) + " has no recorded query row whose own key is recorded: decode methods need one"};
}

double DecodeSteps::KeptMass(const HeadTensors& head, int64_t step, std::span<const int32_t> tokens) const {
  double mass = 0;
  const int64_t first = FirstToken(step);
  for (const int32_t token : tokens) mass += Probability(head, Row(step), first + token);
  return RoundedShare(mass);
}

double DecodeSteps::OutsideMass(const HeadTensors& head, int64_t step) const {
  const int64_t row = Row(step);
  if (head.SeesAllItsKeys(row)) return 0;
  const kernels::ColumnRange attended = head.AttendedColumns(row);
  std::vector<int32_t> all(static_cast<size_t>(attended.end - attended.begin));
  std::iota(all.begin(), all.end(), 0);
  return std::max(0.0, 1 - KeptMass(head, step, all) - head.SinkMass(row));
}

kernels::AttentionProblem DecodeSteps::Problem(const kernels::AttentionProblem& whole, int64_t step) const {
  const int32_t first = FirstToken(step);
  kernels::AttentionProblem problem = whole;
  problem.seq_q = 1;
  problem.seq_k = frame_.row_positions[static_cast<size_t>(Row(step))] + 1 - first;
  problem.first_position = problem.seq_k - 1;
  problem.q.data = Offset(whole.q.data, Row(step) * whole.q.row_stride, whole.dtype);
  problem.k.data = Offset(whole.k.data, first * whole.k.row_stride, whole.dtype);
  problem.v.data = Offset(whole.v.data, first * whole.v.row_stride, whole.dtype);
  return problem;
}

RecordedRows RecordedOf(const MeasuredHeads& heads) {
  return {heads.lse, heads.q_pre_rope, heads.value_norms, heads.lower};
}

kernels::DecodePrompt DecodeSteps::Prompt(const kernels::AttentionProblem& whole, const RecordedRows& recorded) const {
  kernels::DecodePrompt prompt;
  prompt.first_token = FirstToken(0);
  prompt.capacity = frame_.row_positions.back() + 1;
  prompt.layer = first_head_.layer;
  prompt.num_layers = frame_.num_layers;
  prompt.is_tried_again = true;
  prompt.cache = Problem(whole, 0);
  --prompt.cache.seq_k;
  const int32_t end = prompt.first_token + prompt.cache.seq_k;
  int64_t row = Row(0);
  const auto position = [&](int64_t of) { return frame_.row_positions[static_cast<size_t>(of)]; };
  while (row > 0 && position(row - 1) == end - 1 - (Row(0) - row) && position(row - 1) >= prompt.first_token) --row;
  prompt.cache.seq_q = static_cast<int32_t>(Row(0) - row);
  prompt.cache.first_position = prompt.cache.seq_k - prompt.cache.seq_q;
  prompt.cache.q.data = Offset(whole.q.data, row * whole.q.row_stride, whole.dtype);
  prompt.cache.window = frame_.window;
  // In fp32, as the tensors are in host memory.
  if (!recorded.q_pre_rope.empty() && whole.dtype == kernels::DType::kFloat32) {
    prompt.q_pre_rope = kernels::ContiguousTensor<const void>(recorded.q_pre_rope.data() + row * whole.head_dim,
                                                              whole.num_qo_heads, frame_.num_rows, whole.head_dim);
  }
  prompt.rope = frame_.rope;
  if (!recorded.value_norms.empty()) {
    prompt.value_norms = recorded.value_norms.data() + prompt.first_token;
    prompt.value_norms_head_stride = frame_.num_tokens;
    prompt.value_norms_batch_stride = frame_.num_tokens * whole.num_qo_heads;
  }
  if (!recorded.lse.empty()) {
    prompt.lse = recorded.lse.data() + row;
    prompt.lse_head_stride = frame_.num_rows;
    prompt.lse_batch_stride = frame_.num_rows * whole.num_qo_heads;
  }
  return prompt;
}

kernels::DecodeStep DecodeSteps::Step(const kernels::AttentionProblem& whole, int64_t step) const {
  return {.problem = Problem(whole, step), .first_token = FirstToken(step)};
}

}  // namespace headscope::analysis
