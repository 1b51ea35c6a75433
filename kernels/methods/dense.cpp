// Everything causal is kept: the baseline of every comparison.
#include "head_groups.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec MakeSpec(Phase phase) {
  MethodSpec spec;
  spec.name = "dense";
  spec.title = "Dense attention";
  spec.family = "dense";
  spec.paper = "Attention Is All You Need, section 3.2.1";
  spec.summary = "Keeps every earlier token: the baseline that all others are compared with.";
  spec.phase = phase;
  return spec;
}

class DensePrefillMethod final : public internal::PrefillSelector {
 public:
  DensePrefillMethod() : PrefillSelector(MakeSpec(Phase::kPrefill)) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues&, const RunOptions&,
                SparseIndex* index) const override {
    *index = internal::IndexOfRule(problem, {});
    return {};
  }
};

class DenseDecodeMethod final : public internal::DecodeSelector {
 public:
  DenseDecodeMethod() : DecodeSelector(MakeSpec(Phase::kDecode)) {}

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
