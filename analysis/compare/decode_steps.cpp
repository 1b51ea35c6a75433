#include "compare/decode_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "analysis/tiles.h"
#include "head/head_checks.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

const void* Offset(const void* data, int64_t elements, kernels::DType dtype) {
  return static_cast<const char*>(data) + elements * SizeOf(dtype);
}

}  // namespace

bool ChoosesByPlace(const kernels::DecodeMethod& method) {
  return method.spec().IsStatic();
}

DecodeSteps::DecodeSteps(const HeadFrame& frame, HeadId first_head, int32_t rows)
    : frame_(frame), first_head_(first_head), count_(std::clamp<int64_t>(rows, 0, frame.num_rows)) {
  first_row_ = frame.num_rows - count_;
}

Status DecodeSteps::Check() const {
  if (count_ > 0 && frame_.row_positions.back() < frame_.num_tokens) return {};
  return {StatusCode::kUnsupported,
          "head " + HeadName(first_head_) + " has no recorded query row with its own key: decode methods need one"};
}

double DecodeSteps::KeptMass(const HeadTensors& head, int64_t step, std::span<const int32_t> tokens) const {
  double mass = 0;
  const int64_t first = FirstToken(step);
  for (const int32_t token : tokens) mass += Probability(head, Row(step), first + token);
  return mass;
}

kernels::AttentionProblem DecodeSteps::ProblemFrom(const kernels::AttentionProblem& whole, int64_t step,
                                                   int32_t first) const {
  kernels::AttentionProblem problem = whole;
  problem.seq_q = 1;
  problem.seq_k = frame_.row_positions[static_cast<size_t>(Row(step))] + 1 - first;
  problem.first_position = problem.seq_k - 1;
  problem.q.data = Offset(whole.q.data, Row(step) * whole.q.row_stride, whole.dtype);
  problem.k.data = Offset(whole.k.data, first * whole.k.row_stride, whole.dtype);
  problem.v.data = Offset(whole.v.data, first * whole.v.row_stride, whole.dtype);
  return problem;
}

kernels::AttentionProblem DecodeSteps::Problem(const kernels::AttentionProblem& whole, int64_t step) const {
  return ProblemFrom(whole, step, FirstToken(step));
}

Status DecodeSteps::Select(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                           const kernels::AttentionProblem& whole, int64_t step, const kernels::RunOptions& options,
                           kernels::DecodeSelection* selection) const {
  const int32_t first = FirstToken(step);
  if (!ChoosesByPlace(method)) return method.Select(Problem(whole, step), values, options, selection);
  if (Status status = method.Select(ProblemFrom(whole, step, 0), values, options, selection); !status.ok())
    return status;
  const kernels::AttentionProblem from_start = ProblemFrom(whole, step, 0);
  kernels::DropTokensBefore(first, from_start.seq_k, frame_.head_dim, selection);
  return {};
}

}  // namespace headscope::analysis
