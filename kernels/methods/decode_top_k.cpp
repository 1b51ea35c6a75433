// SPDX-License-Identifier: Apache-2.0
// The k tokens of the largest exact attention, at every step: FlexGen's sparse attention, and the bound of every method
// that keeps k tokens.
//
// Source: SparQ Attention, section 5.1 (FlexGen: exact scores from the full K, the top k values; transfers S * head_dim
// + k * head_dim + 2 * head_dim) and section 5.4 (oracle top-k). Over grouped queries probabilities are summed within
// the group, as SparQ sums its approximate ones: r = head_dim of SparQ, no window, no reallocation.
//
// What becomes of the other tokens' mass (`others`): attention over the tokens is renormalised, as the oracle's and as
// SparQ's own; or nothing is in its place (section 3, equation 5: the scores of the full softmax times the top values);
// or the mean value is (equation 6), by the exact mass where SparQ estimates it. Of a model with sinks a row's mass on
// its sink stays where it is.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "common_parameters.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_sparq.h"
#include "registry.h"
#include "selector.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

// In the order of the parameter's choices.
enum class OthersMass : uint8_t { kRenormalised, kDropped, kMeanValue };

MethodSpec DecodeTopKSpec() {
  return {
      .name = "exact-top-k",
      .title = "Exact top-k",
      .family = "oracle",
      .paper = "SparQ Attention: Bandwidth-Efficient LLM Inference, sections 5.1 (FlexGen) and 5.4 (oracle)",
      .summary = "Reads every key to pick the k tokens with the largest exact attention.",
      .always_keeps = "nothing",
      .selection_cost = "every key, S d elements, of a step and KV head",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .reads_v = true,
      .gives_candidates = true,
      .parameters =
          {{.name = "k",
            .default_value = 128,
            .minimum = 1,
            .maximum = 1 << 20,
            .step = 16,
            .logarithmic = true,
            .unit = Unit::kTokens,
            .help = "tokens attended to (SparQ's comparisons: 2 to 256)",
            .cost = "one more value to read per token",
            .role = ParameterRole::kBudget},
           internal::CompressionRatio("k"),
           {.name = "others",
            .type = ParameterType::kChoice,
            .maximum = 2,
            .help = "the mass of the other tokens: shared out over the k tokens, dropped (FlexGen; SparQ, equation 5), "
                    "or given to the mean value (equation 6)",
            .cost = "the mean value is read and written",
            .choices = {"renormalised", "dropped", "mean_value"}}},
  };
}

class ExactTopKMethod final : public internal::DecodeSelector {
 public:
  ExactTopKMethod() : DecodeSelector(DecodeTopKSpec()) {}

  ParameterValues ForTokensAlone(ParameterValues values) const override {
    values.Set(spec(), "others", static_cast<double>(OthersMass::kRenormalised));
    return values;
  }

 private:
  static OthersMass OthersOf(const ParameterValues& values) { return values.Choice<OthersMass>("others"); }
  bool ReadsV(const ParameterValues& values, const AttentionProblem&) const override {
    return OthersOf(values) == OthersMass::kMeanValue;
  }

  // What a row gives to tokens that are not among these.
  static float MassOfOthers(std::span<const float> probabilities, const std::vector<int32_t>& tokens) {
    double all = 0, kept = 0;
    for (const float probability : probabilities) all += static_cast<double>(probability);
    for (const int32_t token : tokens) kept += static_cast<double>(probabilities[static_cast<size_t>(token)]);
    return static_cast<float>(std::clamp(all - kept, 0.0, 1.0));
  }

  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                DecodeSelection* selection) const override {
    const int32_t budget = internal::BudgetInTokens(values, "k", problem.seq_k);
    const OthersMass others = OthersOf(values);
    if (others != OthersMass::kRenormalised && problem.window > 0) {
      return {StatusCode::kUnsupported,
              "the keys have a window, which the mass of the others does not know: set others to renormalised, or give "
              "it the window's keys alone"};
    }
    const int32_t group = problem.GroupSize();
    std::vector<std::vector<int32_t>> tokens(static_cast<size_t>(int64_t{problem.batch} * problem.num_kv_heads));
    std::vector<float> alpha(others == OthersMass::kRenormalised ? 0 : tokens.size() * static_cast<size_t>(group));
    Status status = internal::ParallelFor(
        static_cast<int64_t>(tokens.size()), 1, options, [&](int64_t begin, int64_t end, int32_t) {
          for (int64_t list = begin; list < end; ++list) {
            internal::StepScores scores(problem, static_cast<int32_t>(list / problem.num_kv_heads),
                                        static_cast<int32_t>(list % problem.num_kv_heads));
            scores.ScoreAll();
            scores.Softmax();
            std::vector<int32_t>& chosen = tokens[static_cast<size_t>(list)];
            chosen = internal::TopK(scores.Sums(), budget);
            if (others == OthersMass::kRenormalised) continue;
            for (int32_t i = 0; i < group; ++i)
              alpha[static_cast<size_t>(list * group + i)] = 1 - MassOfOthers(scores.Row(i), chosen);
          }
        });
    if (!status.ok()) return status;
    *selection = internal::SelectionOfLists(problem, tokens);
    selection->elements_to_choose = int64_t{problem.seq_k} * problem.head_dim;
    const int64_t count = std::min(budget, problem.seq_k);
    selection->elements_moved = (int64_t{problem.seq_k} + 1) * problem.head_dim + (count + 1) * problem.ValueDim();
    if (others == OthersMass::kRenormalised) return status;
    selection->alpha = std::move(alpha);
    selection->mean_value.assign(tokens.size() * static_cast<size_t>(problem.ValueDim()), 0.0f);
    if (others == OthersMass::kDropped) return status;
    selection->elements_moved += 2 * int64_t{problem.ValueDim()};
    return MeanValueCpu(problem, options, selection->mean_value.data());
  }
};

}  // namespace

const DecodeMethod& ExactTopK() {
  static const ExactTopKMethod method;
  return method;
}

}  // namespace headscope::kernels
