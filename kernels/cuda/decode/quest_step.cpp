// SPDX-License-Identifier: Apache-2.0
// Quest's step (kernels/cuda_decode_step.h): DecodeQuestCuda, and what it keeps: the bounds of pages.
#include <memory>
#include <optional>

#include "decode/decode_check.h"
#include "kernels/cuda_decode_step.h"
#include "kernels/cuda_quest.h"
#include "kernels/pages_by_bounds.h"
#include "kernels/step_elements.h"
#include "methods/registry.h"
#include "refusals.h"

namespace headscope::kernels {
namespace {

class QuestStep final : public CudaDecodeStep {
 public:
  explicit QuestStep(const PagesByBounds& options) : options_(options) {}

  Choice ChoiceOf(const AttentionProblem& problem) const override {
    return {.pages = NumQuestPicks(problem, options_),
            .page_size = options_.page_size,
            .keeps_newest = options_.keep_newest};
  }

  int64_t KeptBytes(const AttentionProblem& problem, int32_t capacity) const override {
    return int64_t{problem.batch} * problem.num_kv_heads * BoundsOfList(problem, capacity) * SizeOf(problem.dtype);
  }

  Status Update(const AttentionProblem& problem, int32_t first_token, const CudaKept& kept,
                void* stream) const override {
    if (Status status = decode::CheckKept(problem, kept); !status.ok()) return status;
    return UpdatePageBoundsCuda(problem, options_.page_size, first_token, Bounds(problem, kept), stream);
  }

  size_t WorkspaceBytes(const AttentionProblem& problem) const override {
    return QuestWorkspaceBytes(problem, options_);
  }

  Status Run(const AttentionProblem& problem, const CudaKept& kept, const AttentionOutput& output, int32_t* chosen,
             void* workspace, size_t workspace_bytes, void* stream) const override {
    if (Status status = decode::CheckKept(problem, kept); !status.ok()) return status;
    return DecodeQuestCuda(problem, options_, Bounds(problem, kept), output, chosen, workspace, workspace_bytes,
                           stream);
  }

  int64_t ElementsMoved(const AttentionProblem& problem) const override { return ElementsOf(options_, problem).moved; }
  // The keys of the pages that have new tokens, and their bounds, which are written.
  int64_t UpdateBytes(const AttentionProblem& problem, int32_t first_token) const override {
    const int64_t first_page = first_token / options_.page_size;
    const int64_t keys = problem.seq_k - first_page * options_.page_size;
    const int64_t bounds = 2 * (NumQuestPages(problem, options_) - first_page);
    return int64_t{problem.batch} * problem.num_kv_heads * (keys + bounds) * problem.head_dim * SizeOf(problem.dtype);
  }

 private:
  int64_t BoundsOfList(const AttentionProblem& problem, int32_t capacity) const {
    return ((int64_t{capacity} - 1) / options_.page_size + 1) * 2 * problem.head_dim;
  }
  CudaPageBounds Bounds(const AttentionProblem& problem, const CudaKept& kept) const {
    return {kept.memory, BoundsOfList(problem, kept.capacity)};
  }

  const PagesByBounds options_;
};

}  // namespace

Status fused::QuestSteps(Call* call) {
  const std::optional<PagesByBounds> options = PagesByBoundsOf(call->method, call->values);
  if (!options) return UnsupportedStatus("it has no GPU kernel for these values");
  if (Status status = decode::CheckQuestShape(call->problem, *options); !status.ok()) return status;
  call->steps.push_back(std::make_unique<QuestStep>(*options));
  return {};
}

}  // namespace headscope::kernels
