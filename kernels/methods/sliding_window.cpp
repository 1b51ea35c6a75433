// SPDX-License-Identifier: Apache-2.0
// Decode over the newest tokens, with attention sinks if asked for.
//
// Source: the sliding-window baseline of S2-Attention (section 5.1: 9 shards of 64 = 576 tokens); with n_sink = 16 the
// LM-Infinite baseline of SparQ Attention (section 5.1: the first 16 and the newest k - 16).
#include <algorithm>

#include "common_parameters.h"
#include "head_groups.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec SlidingWindowSpec() {
  return {
      .name = "sliding-window",
      .title = "Sliding window",
      .family = "static pattern",
      .paper =
          "Efficient LLM Training and Serving with Heterogeneous Context Sharding among Attention Heads, section 5.1; "
          "SparQ Attention, section 5.1 (LM-Infinite)",
      .summary = "Attends to the newest n_local tokens and, if n_sink is not 0, to the first n_sink.",
      .always_keeps = "the whole pattern, the same in every head",
      .selection_cost = "nothing",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kPlace,
      .gives_candidates = true,
      .kvpress = {{.name = "streaming_llm", .values = "n_sink=4", .given = {"n_local", "compression_ratio"}}},
      .parameters =
          {
              {.name = "n_local",
               .default_value = 576,
               .minimum = 1,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "newest tokens, including the query's own",
               .cost = "one more key and value to read per token",
               .role = ParameterRole::kBudget},
              {.name = "n_sink",
               .default_value = 0,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 1,
               .unit = Unit::kTokens,
               .help = "first tokens that are always attended to (16 is LM-Infinite)",
               .cost = "one more key and value to read per token"},
              internal::CompressionRatio("n_local"),
          },
  };
}

class SlidingWindowMethod final : public internal::DecodeSelector {
 public:
  SlidingWindowMethod() : DecodeSelector(SlidingWindowSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions&,
                DecodeSelection* selection) const override {
    // A share is of the tokens that are kept in all, the first ones among them.
    const int32_t sinks = values.Real(internal::kCompressionRatio) > 0 ? values.Integer("n_sink") : 0;
    const int32_t local = std::max(1, internal::BudgetInTokens(values, "n_local", problem.seq_k) - sinks);
    const int32_t window_begin = std::max(0, problem.seq_k - local);
    const int32_t sinks_end = std::min(values.Integer("n_sink"), window_begin);
    *selection = internal::SelectSameTokens(problem, {{0, sinks_end}, {window_begin, problem.seq_k}});
    return {};
  }
};

}  // namespace

const DecodeMethod& SlidingWindow() {
  static const SlidingWindowMethod method;
  return method;
}

}  // namespace headscope::kernels
