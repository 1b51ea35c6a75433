// SPDX-License-Identifier: Apache-2.0
// The k tokens of the largest attention as a random subspace sees it: what SparQ's choice of components is compared
// with.
//
// Source: SparQ Attention, section 5.4 and figure 7a ("a random low rank projection of K is transferred from memory").
// Where the paper is silent, as in its published code: an orthonormal projection for each KV head, the model's own
// scale (with r = head_dim the scores are exact), no reallocation; as SparQ, probabilities are summed over the group.
// The keys' projections, r numbers a token, would be kept beside the cache: they are what `elements_moved` counts.
#include <algorithm>
#include <vector>

#include "common_parameters.h"
#include "internal/parallel_for.h"
#include "kernels/random_subspace.h"
#include "problems/counter_random.h"
#include "registry.h"
#include "selector.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec LowRankSpec() {
  return {
      .name = "low-rank",
      .title = "Random low rank",
      .family = "dynamic selection",
      .paper = "SparQ Attention: Bandwidth-Efficient LLM Inference, section 5.4 (figure 7a)",
      .summary = "Reads a random projection of every key to pick the tokens to attend to.",
      .always_keeps = "nothing",
      .selection_cost = "r elements of every key, S r, of a step and KV head; the projections are stored beside K",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .gives_candidates = true,
      .parameters =
          {
              {.name = "r",
               .default_value = 16,
               .minimum = 1,
               .maximum = 1024,
               .step = 8,
               .logarithmic = true,
               .unit = Unit::kComponents,
               .help = "dimensions of the projection that scores all keys",
               .cost = "one more element of every key to read per dimension"},
              internal::AttendedTokens(128),
              internal::CompressionRatio("k"),
              {.name = "seed",
               .maximum = 1 << 30,
               .help = "random seed of the projection",
               .cost = "none; it only changes the draw"},
          },
  };
}

class LowRankMethod final : public internal::DecodeSelector {
 public:
  LowRankMethod() : DecodeSelector(LowRankSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                DecodeSelection* selection) const override {
    const auto seed = static_cast<uint64_t>(values.Integer("seed"));
    const int32_t rank = std::min(values.Integer("r"), problem.head_dim);
    const int32_t budget = internal::BudgetInTokens(values, "k", problem.seq_k);
    std::vector<std::vector<int32_t>> tokens(static_cast<size_t>(int64_t{problem.batch} * problem.num_kv_heads));
    Status status = internal::ParallelFor(
        static_cast<int64_t>(tokens.size()), 1, options, [&](int64_t begin, int64_t end, int32_t) {
          for (int64_t list = begin; list < end; ++list) {
            const auto kv_head = static_cast<int32_t>(list % problem.num_kv_heads);
            const uint64_t of_head =
                problems::RandomAt(seed, static_cast<uint64_t>(problem.first_kv_head) + static_cast<uint64_t>(kv_head));
            internal::StepScores scores(problem, static_cast<int32_t>(list / problem.num_kv_heads), kv_head);
            scores.ProjectQueries(RandomSubspace(rank, problem.head_dim, of_head));
            scores.ScoreAll();
            scores.Softmax();
            tokens[static_cast<size_t>(list)] = internal::TopK(scores.Sums(), budget);
          }
        });
    if (!status.ok()) return status;
    *selection = internal::SelectionOfLists(problem, tokens);
    const int64_t count = std::min(budget, problem.seq_k);
    selection->elements_to_choose = int64_t{problem.seq_k} * rank;
    selection->elements_moved =
        selection->elements_to_choose + (count + 1) * (int64_t{problem.head_dim} + problem.ValueDim());
    return {};
  }
};

}  // namespace

const DecodeMethod& LowRank() {
  static const LowRankMethod method;
  return method;
}

}  // namespace headscope::kernels
