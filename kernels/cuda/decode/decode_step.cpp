// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "decode/decode_check.h"
#include "decode/dense_plan.h"
#include "decode/sparq_plan.h"
#include "kernels/cuda_decode_step.h"

namespace headscope::kernels {
namespace {

// Whether DecodeSparqCuda takes the step.
Status CheckTopTokens(const AttentionProblem& problem, const EstimatedTopTokens& options) {
  if (Status status = decode::CheckSparqShape(problem, options); !status.ok()) return status;
  decode::DecodeDevice device;
  if (Status status = decode::FindDecodeDevice(&device); !status.ok()) return status;
  decode::SparqPlan plan;
  return decode::PlanSparq(problem, options, /*whole_rows=*/false, device, &plan);
}

}  // namespace

CudaDecodeStep::CudaDecodeStep(const DecodeMethod& method, const ParameterValues& values,
                               const AttentionProblem& problem, IfSlower if_slower)
    : if_slower_(if_slower) {
  Status takes;
  if (const std::optional<EstimatedTopTokens> tokens = method.FusedStep(values, problem)) {
    top_tokens_ = *tokens;
    takes = CheckTopTokens(problem, top_tokens_);
    if (takes.ok()) way_ = Way::kTopTokens;
  } else if (const std::optional<PagesByBounds> pages = method.FusedPages(values, problem)) {
    pages_ = *pages;
    takes = decode::CheckQuestShape(problem, pages_);
    if (takes.ok()) way_ = Way::kPages;
  } else {
    reason_ = method.IsDenseLayer(values, problem.layer) ? "it leaves this layer dense" : "it has no GPU kernel";
    return;
  }
  reason_ = takes.ok() ? "" : takes.message();
  if (!takes.ok() || !method.spec().reads_output) return;
  way_ = Way::kSelection;
  reason_ = "it learns from each step's output";
}

bool CudaDecodeStep::YieldsToDense(const AttentionProblem& problem, bool whole_rows) const {
  return way_ == Way::kTopTokens && if_slower_ == IfSlower::kYield &&
         decode::SparqBehindDense(problem, top_tokens_, whole_rows) >= 0;
}

int32_t CudaDecodeStep::NumChosen(const AttentionProblem& problem) const {
  switch (way_) {
    case Way::kSelection:
      return 0;
    case Way::kTopTokens:
      return top_tokens_.num_tokens;
    case Way::kPages:
      break;
  }
  return NumQuestPicks(problem, pages_);
}

size_t CudaDecodeStep::WorkspaceBytes(const AttentionProblem& problem, const CudaSelection& selection) const {
  switch (way_) {
    case Way::kSelection:
      return SelectionWorkspaceBytes(problem, selection);
    case Way::kTopTokens:
      return DecodeWorkspaceBytes(problem, top_tokens_);
    case Way::kPages:
      break;
  }
  return QuestWorkspaceBytes(problem, pages_);
}

Status CudaDecodeStep::Run(const AttentionProblem& problem, const CudaDecodeInputs& inputs,
                           const AttentionOutput& output, int32_t* chosen, void* workspace, size_t workspace_bytes,
                           void* stream) const {
  switch (way_) {
    case Way::kSelection:
      if (inputs.selection == nullptr)
        return {StatusCode::kInvalidArgument, "inputs.selection is null: this step chooses nothing itself"};
      return AttendSelectionCuda(problem, *inputs.selection, output, workspace, workspace_bytes, stream);
    case Way::kTopTokens:
      if (YieldsToDense(problem, /*whole_rows=*/inputs.transposed.data == nullptr)) {
        if (chosen != nullptr)
          return {StatusCode::kInvalidArgument,
                  "chosen: this step yields to the dense one and chooses nothing; pass null"};
        return DecodeDenseCuda(problem, output, workspace, workspace_bytes, stream);
      }
      return DecodeSparqCuda(problem, top_tokens_, inputs.transposed, inputs.mean_value, output, chosen, workspace,
                             workspace_bytes, stream);
    case Way::kPages:
      break;
  }
  return DecodeQuestCuda(problem, pages_, inputs.bounds, output, chosen, workspace, workspace_bytes, stream);
}

}  // namespace headscope::kernels
