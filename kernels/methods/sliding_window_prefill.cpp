// SPDX-License-Identifier: Apache-2.0
// Sliding window: every row keeps the newest tokens, and first layers may be dense.
//
// Source: the SWA baseline of S2-Attention, section 5.1 and Table 1 (9 shards of 64 = 576 tokens), by itself and with
// the model's first two layers dense.
#include "common_parameters.h"
#include "head_groups.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec SlidingWindowPrefillSpec() {
  ParameterSpec dense_layers = internal::DenseLayersParameter();
  dense_layers.default_value = 0;  // the baseline by itself
  return {
      .name = "sliding-window-prefill",
      .title = "Sliding window",
      .family = "static pattern",
      .paper =
          "Efficient LLM Training and Serving with Heterogeneous Context Sharding among Attention Heads, section 5.1",
      .summary = "Keeps the newest n_local tokens of every row, in layers behind the first dense_layers.",
      .always_keeps = "the whole pattern, the same in every head; the first dense_layers of the model are dense",
      .selection_cost = "nothing",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kPlace,
      .parameters =
          {
              {.name = "n_local",
               .default_value = 576,
               .minimum = 1,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "newest tokens that every row keeps, including its own",
               .cost = "one more pair per row and token",
               .role = ParameterRole::kBudget,
               .scaled_floor = 32},
              dense_layers,
          },
  };
}

class SlidingWindowPrefillMethod final : public internal::PrefillSelector {
 public:
  SlidingWindowPrefillMethod() : PrefillSelector(SlidingWindowPrefillSpec()) {}
  std::string_view DenseBy(const ParameterValues& values, int32_t layer) const override {
    return internal::DenseByFirstLayers(values, layer);
  }

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions&,
                SparseIndex* index) const override {
    ElementRule rule;  // of every pair
    if (!IsDenseLayer(values, problem.layer)) rule = {MaskKind::kCausalWindow, values.Integer("n_local"), 0};
    *index = internal::IndexOfRule(problem, rule);
    return {};
  }
};

}  // namespace

const PrefillMethod& SlidingWindowPrefill() {
  static const SlidingWindowPrefillMethod method;
  return method;
}

}  // namespace headscope::kernels
