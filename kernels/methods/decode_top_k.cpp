// SPDX-License-Identifier: Apache-2.0
// The k tokens of the largest exact attention, at every step: FlexGen's sparse attention, and the bound of every method
// that keeps k tokens.
//
// Source: SparQ Attention, section 5.1 (FlexGen: exact scores from the full K, the top k values; transfers S * head_dim
// + k * head_dim + 2 * head_dim) and section 5.4 (oracle top-k). Over grouped queries probabilities are summed within
// the group, as SparQ sums its approximate ones: r = head_dim of SparQ, no window, no reallocation. Attention over the
// tokens is renormalised.
#include <algorithm>
#include <vector>

#include "common_parameters.h"
#include "internal/parallel_for.h"
#include "registry.h"
#include "selector.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec DecodeTopKSpec() {
  return {
      .name = "exact-top-k",
      .title = "Exact top-k (FlexGen)",
      .family = "oracle",
      .paper = "SparQ Attention: Bandwidth-Efficient LLM Inference, sections 5.1 (FlexGen) and 5.4 (oracle)",
      .summary = "Reads every key to pick the k tokens with the largest exact attention.",
      .always_keeps = "nothing",
      .selection_cost = "every key, S d elements, of a step and KV head",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .gives_candidates = true,
      .parameters = {{.name = "k",
                      .default_value = 128,
                      .minimum = 1,
                      .maximum = 1 << 20,
                      .step = 16,
                      .logarithmic = true,
                      .unit = Unit::kTokens,
                      .help = "tokens attended to (FlexGen's comparisons: 2 to 256)",
                      .cost = "one more value to read per token",
                      .role = ParameterRole::kBudget},
                     internal::CompressionRatio("k")},
  };
}

class ExactTopKMethod final : public internal::DecodeSelector {
 public:
  ExactTopKMethod() : DecodeSelector(DecodeTopKSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                DecodeSelection* selection) const override {
    const int32_t budget = internal::BudgetInTokens(values, "k", problem.seq_k);
    std::vector<std::vector<int32_t>> tokens(static_cast<size_t>(int64_t{problem.batch} * problem.num_kv_heads));
    Status status = internal::ParallelFor(
        static_cast<int64_t>(tokens.size()), 1, options, [&](int64_t begin, int64_t end, int32_t) {
          for (int64_t list = begin; list < end; ++list) {
            internal::StepScores scores(problem, static_cast<int32_t>(list / problem.num_kv_heads),
                                        static_cast<int32_t>(list % problem.num_kv_heads));
            scores.ScoreAll();
            scores.Softmax();
            tokens[static_cast<size_t>(list)] = internal::TopK(scores.Sums(), budget);
          }
        });
    if (!status.ok()) return status;
    *selection = internal::SelectionOfLists(problem, tokens);
    selection->elements_to_choose = int64_t{problem.seq_k} * problem.head_dim;
    const int64_t count = std::min(budget, problem.seq_k);
    selection->elements_moved = (int64_t{problem.seq_k} + 1) * problem.head_dim + (count + 1) * problem.ValueDim();
    return {};
  }
};

}  // namespace

const DecodeMethod& ExactTopK() {
  static const ExactTopKMethod method;
  return method;
}

}  // namespace headscope::kernels
