#include "compare/decode_steps.h"

#include <algorithm>

#include "analysis/tiles.h"
#include "head/head_checks.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

const void* Offset(const void* data, int64_t elements, kernels::DType dtype) {
  return static_cast<const char*>(data) + elements * SizeOf(dtype);
}

// Leaves the tokens from `first` on, counted from there.
void DropBefore(int32_t first, int32_t head_dim, kernels::DecodeSelection* selection) {
  std::vector<int32_t>& tokens = selection->tokens;
  const auto kept = std::lower_bound(tokens.begin(), tokens.end(), first);
  selection->elements_moved -= 2 * int64_t{kept - tokens.begin()} * head_dim;
  tokens.erase(tokens.begin(), kept);
  for (int32_t& token : tokens) token -= first;
  selection->token_begin = {0, static_cast<int64_t>(tokens.size())};
}

}  // namespace

bool ChoosesByPlace(const kernels::DecodeMethod& method) {
  return method.spec().name == "dense" || method.spec().family == "static pattern";
}

DecodeSteps::DecodeSteps(const HeadTensors& head, int32_t rows)
    : head_(head), count_(std::clamp<int64_t>(rows, 0, head.num_rows)) {
  first_row_ = head.num_rows - count_;
}

Status DecodeSteps::Check() const {
  if (count_ > 0 && head_.row_positions.back() < head_.num_tokens) return {};
  return {StatusCode::kUnsupported,
          "head " + HeadName(head_.id) + " has no recorded query row with its own key: decode methods need one"};
}

double DecodeSteps::KeptMass(int64_t step, const kernels::DecodeSelection& selection) const {
  double mass = 0;
  const int64_t first = FirstToken(step);
  for (const int32_t token : selection.tokens) mass += Probability(head_, Row(step), first + token);
  return mass;
}

kernels::AttentionProblem DecodeSteps::ProblemFrom(const kernels::AttentionProblem& whole, int64_t step,
                                                   int32_t first) const {
  kernels::AttentionProblem problem = whole;
  problem.seq_q = 1;
  problem.seq_k = head_.row_positions[static_cast<size_t>(Row(step))] + 1 - first;
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
  if (first > 0) DropBefore(first, head_.head_dim, selection);
  return {};
}

}  // namespace headscope::analysis
