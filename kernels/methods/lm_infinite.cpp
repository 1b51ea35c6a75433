// SPDX-License-Identifier: Apache-2.0
// LM-Infinite: the Lambda-shaped mask, in prefill and in decode.
//
// Source: LM-Infinite: Zero-Shot Extreme Length Generalization for Large Language Models, section 3: a global branch of
// the first tokens and a local branch as long as the model was trained for. Its third part, a ceiling on the distance
// that positions are encoded with, is not in the mask: the global branch's keys are taken as they were recorded, at
// their true distance. Decode as SparQ Attention compares with it (section 5.1): the first 16 and the newest k - 16.
#include <algorithm>

#include "common_parameters.h"
#include "head_groups.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec LmInfiniteSpec(Phase phase) {
  const bool decode = phase == Phase::kDecode;
  MethodSpec spec = {
      .name = decode ? "lm-infinite-decode" : "lm-infinite",
      .title = "LM-Infinite",
      .family = "static pattern",
      .paper = decode
                   ? "LM-Infinite: Zero-Shot Extreme Length Generalization for Large Language Models, section 3; SparQ "
                     "Attention, section 5.1 (its budget)"
                   : "LM-Infinite: Zero-Shot Extreme Length Generalization for Large Language Models, section 3",
      .summary = decode
                     ? "Attends to the first n_global tokens and the newest k - n_global."
                     : "Keeps the first n_global tokens and the newest n_local, as many as the model was trained for.",
      .always_keeps = "the whole pattern, the same in every head",
      .selection_cost = "nothing",
      .phase = phase,
      .chosen_per = ChosenPer::kPlace,
      .gives_candidates = decode,
      .parameters =
          {
              {.name = "n_global",
               .default_value = decode ? 16.0 : 10.0,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 1,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = decode ? "first tokens that are always attended to, a part of k"
                              : "first tokens that every row keeps (the paper: 10 to 100)",
               .cost = decode ? "takes places from the newest tokens" : "one more pair per row and token"},
              {.name = decode ? "k" : "n_local",
               .default_value = decode ? 192.0 : 4096.0,
               .minimum = 1,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = decode ? "tokens attended to, the first and the newest (SparQ's comparisons: 192 to 768)"
                              : "newest tokens that every row keeps, including its own (the length that the model was "
                                "trained for)",
               .cost = decode ? "one more key and value to read per token" : "one more pair per row and token",
               .role = ParameterRole::kBudget,
               .scaled_floor = decode ? 0.0 : 32.0},
          },
  };
  if (decode) spec.parameters.push_back(internal::CompressionRatio("k"));
  return spec;
}

class LmInfiniteMethod final : public internal::PrefillSelector {
 public:
  LmInfiniteMethod() : PrefillSelector(LmInfiniteSpec(Phase::kPrefill)) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions&,
                SparseIndex* index) const override {
    *index = internal::IndexOfRule(problem,
                                   {MaskKind::kCausalWindow, values.Integer("n_local"), values.Integer("n_global")});
    return {};
  }
};

class LmInfiniteDecodeMethod final : public internal::DecodeSelector {
 public:
  LmInfiniteDecodeMethod() : DecodeSelector(LmInfiniteSpec(Phase::kDecode)) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions&,
                DecodeSelection* selection) const override {
    const int32_t tokens = std::min(internal::BudgetInTokens(values, "k", problem.seq_k), problem.seq_k);
    const int32_t sinks = std::min(values.Integer("n_global"), tokens - 1);  // the newest is among them
    *selection = internal::SelectSameTokens(problem, {{0, sinks}, {problem.seq_k - (tokens - sinks), problem.seq_k}});
    return {};
  }
};

}  // namespace

const PrefillMethod& LmInfinite() {
  static const LmInfiniteMethod method;
  return method;
}

const DecodeMethod& LmInfiniteDecode() {
  static const LmInfiniteDecodeMethod method;
  return method;
}

}  // namespace headscope::kernels
