// SPDX-License-Identifier: Apache-2.0
// Everything causal is kept: the baseline of every comparison.
#include "head_groups.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec DenseSpec(Phase phase) {
  return {
      .name = "dense",
      .title = "Dense attention",
      .family = "dense",
      .paper = "Attention Is All You Need, section 3.2.1",
      .summary = "Keeps every earlier token: the baseline for all others.",
      .always_keeps = "everything",
      .selection_cost = "nothing",
      .phase = phase,
      .baseline = true,
      .chosen_per = ChosenPer::kPlace,
      .gives_candidates = phase == Phase::kDecode,
  };
}

class DensePrefillMethod final : public internal::PrefillSelector {
 public:
  DensePrefillMethod() : PrefillSelector(DenseSpec(Phase::kPrefill)) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues&, const RunOptions&,
                SparseIndex* index) const override {
    *index = internal::IndexOfRule(problem, {});
    return {};
  }
};

class DenseDecodeMethod final : public internal::DecodeSelector {
 public:
  DenseDecodeMethod() : DecodeSelector(DenseSpec(Phase::kDecode)) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues&, const RunOptions&,
                DecodeSelection* selection) const override {
    *selection = internal::SelectSameTokens(problem, {{0, problem.seq_k}});
    return {};
  }
};

}  // namespace

const PrefillMethod& DensePrefill() {
  static const DensePrefillMethod method;
  return method;
}

const DecodeMethod& DenseDecode() {
  static const DenseDecodeMethod method;
  return method;
}

}  // namespace headscope::kernels
