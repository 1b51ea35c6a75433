// MInference A-shape (the prefill form of StreamingLLM): the first tokens and a sliding window, the same for every
// head.
//
// Source: MInference 1.0, section 3.2 and Table 6. Kept: column < n_sink or position - column < n_local. The window
// counts the diagonal (the paper leaves that open), so a row keeps min(position + 1, n_sink + n_local) tokens.
#include "head_groups.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec MakeSpec() {
  MethodSpec spec;
  spec.name = "a-shape";
  spec.title = "MInference A-shape";
  spec.family = "static pattern";
  spec.paper =
      "MInference 1.0: Accelerating Pre-filling for Long-Context LLMs via Dynamic Sparse Attention, section 3.2";
  spec.summary = "Keeps the first n_sink tokens and the newest n_local tokens of every row.";
  spec.phase = Phase::kPrefill;
  spec.parameters = {
      {"n_sink", ParameterType::kInteger, 1024, 0, 1 << 20, 64, true, "tokens", "first tokens that every row keeps",
       "work per row grows by one pair a token", ParameterRole::kBudget},
      {"n_local", ParameterType::kInteger, 4096, 1, 1 << 20, 64, true, "tokens",
       "newest tokens that every row keeps, its own included", "work per row grows by one pair a token",
       ParameterRole::kBudget},
  };
  return spec;
}

class AShapeMethod final : public internal::PrefillSelector {
 public:
  AShapeMethod() : PrefillSelector(MakeSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions&,
                SparseIndex* index) const override {
    const ElementRule rule{MaskKind::kCausalWindow, values.Integer("n_local"), values.Integer("n_sink")};
    *index = internal::IndexOfRule(problem, rule);
    return {};
  }
};

}  // namespace

const PrefillMethod& AShape() {
  static const AShapeMethod method;
  return method;
}

}  // namespace headscope::kernels
