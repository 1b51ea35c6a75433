// SPDX-License-Identifier: Apache-2.0
// SparQ's step (kernels/cuda_decode_step.h): DecodeSparqCuda, and what it keeps: the component-major copy of K and the
// running mean of V.
#include <memory>
#include <optional>
#include <string>

#include "decode/decode_check.h"
#include "decode/dense_plan.h"
#include "decode/sparq_plan.h"
#include "device_memory.h"
#include "kernels/cuda_decode.h"
#include "kernels/cuda_decode_step.h"
#include "kernels/estimated_top_tokens.h"
#include "kernels/sparq_setup.h"
#include "kernels/step_elements.h"
#include "methods/registry.h"
#include "refusals.h"

namespace headscope::kernels {
namespace {

int64_t NumLists(const AttentionProblem& problem) {
  return int64_t{problem.batch} * problem.num_kv_heads;
}

class SparqStep final : public CudaDecodeStep {
 public:
  SparqStep(const EstimatedTopTokens& options, bool two_copies, IfSlower if_slower)
      : options_(options), two_copies_(two_copies), if_slower_(if_slower) {}

  Choice ChoiceOf(const AttentionProblem&) const override {
    return {.pages = options_.num_tokens, .page_size = 1, .keeps_newest = options_.num_local > 0};
  }
  bool WritesLse() const override { return false; }

  int64_t KeptBytes(const AttentionProblem& problem, int32_t capacity) const override {
    return Lay(problem, capacity).total;
  }

  Status Update(const AttentionProblem& problem, int32_t first_token, const CudaKept& kept,
                void* stream) const override {
    if (KeepsNothing()) return {};
    if (Status status = decode::CheckKept(problem, kept); !status.ok()) return status;
    const Layout layout = Lay(problem, kept.capacity);
    char* const base = static_cast<char*>(kept.memory);
    return UpdateSparqCuda(problem, first_token, Keys(problem, kept), Mean(problem, kept), base + layout.scratch,
                           static_cast<size_t>(layout.total - layout.scratch), stream);
  }

  size_t WorkspaceBytes(const AttentionProblem& problem) const override {
    return DecodeWorkspaceBytes(problem, options_);
  }

  Status Run(const AttentionProblem& problem, const CudaKept& kept, const AttentionOutput& output, int32_t* chosen,
             void* workspace, size_t workspace_bytes, void* stream) const override {
    if (YieldsToDense(problem)) {
      if (chosen != nullptr)
        return InvalidStatus("chosen: this step yields to the dense one and chooses nothing; pass null");
      return DecodeDenseCuda(problem, output, workspace, workspace_bytes, stream);
    }
    if (!KeepsNothing()) {
      if (Status status = decode::CheckKept(problem, kept); !status.ok()) return status;
    }
    return DecodeSparqCuda(problem, options_, Keys(problem, kept), Mean(problem, kept), output, chosen, workspace,
                           workspace_bytes, stream);
  }

  bool YieldsToDense(const AttentionProblem& problem) const override {
    return if_slower_ == IfSlower::kYield && decode::SparqBehindDense(problem, options_, !two_copies_) >= 0;
  }
  std::string Variant() const override { return two_copies_ ? "two copies of K" : "one copy of K"; }
  int64_t ElementsMoved(const AttentionProblem& problem) const override {
    return ElementsOf(options_, problem, two_copies_).moved;
  }
  int64_t UpdateBytes(const AttentionProblem& problem, int32_t first_token) const override {
    return kernels::UpdateBytes(options_, problem, first_token, two_copies_);
  }

 private:
  // Values that leave out no mean, over K as it lies.
  bool KeepsNothing() const { return !two_copies_ && !options_.mean_value; }

  // Byte offsets; the keys stand first.
  struct Layout {
    int64_t mean, scratch, total;
  };
  Layout Lay(AttentionProblem problem, int32_t capacity) const {
    const int64_t keys =
        two_copies_ ? NumLists(problem) * problem.head_dim * ComponentStride(capacity) * SizeOf(problem.dtype) : 0;
    Layout layout{};
    layout.mean = ArrayBytes(keys);
    layout.scratch = layout.total = layout.mean;
    if (!options_.mean_value) return layout;
    layout.scratch += ArrayBytes(NumLists(problem) * problem.head_dim * int64_t{sizeof(float)});
    problem.seq_k = capacity;
    problem.first_position = capacity - 1;
    layout.total = layout.scratch + static_cast<int64_t>(UpdateSparqWorkspaceBytes(problem));
    return layout;
  }

  TransposedKeys Keys(const AttentionProblem& problem, const CudaKept& kept) const {
    if (!two_copies_) return {};
    const int64_t stride = ComponentStride(kept.capacity), head = problem.head_dim * stride;
    return {kept.memory, problem.num_kv_heads * head, head, stride};
  }
  float* Mean(const AttentionProblem& problem, const CudaKept& kept) const {
    if (!options_.mean_value) return nullptr;
    return reinterpret_cast<float*>(static_cast<char*>(kept.memory) + Lay(problem, kept.capacity).mean);
  }

  const EstimatedTopTokens options_;
  const bool two_copies_;
  const IfSlower if_slower_;
};

}  // namespace

Status fused::SparqSteps(Call* call) {
  const std::optional<EstimatedTopTokens> options = EstimatedTopTokensOf(call->method, call->values, call->problem);
  if (!options) return UnsupportedStatus("it has no GPU kernel for these values");
  if (Status status = decode::CheckSparqShape(call->problem, *options); !status.ok()) return status;
  decode::DecodeDevice device;
  if (Status status = decode::FindDecodeDevice(&device); !status.ok()) return status;
  decode::SparqPlan plan;
  const bool two_copies = SparqHasTwoCopies(call->values);
  if (Status status = decode::PlanSparq(call->problem, *options, /*whole_rows=*/!two_copies, device, &plan);
      !status.ok()) {
    return status;
  }
  if (two_copies) call->steps.push_back(std::make_unique<SparqStep>(*options, true, call->if_slower));
  call->steps.push_back(std::make_unique<SparqStep>(*options, false, call->if_slower));
  return {};
}

}  // namespace headscope::kernels
