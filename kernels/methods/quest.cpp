// SPDX-License-Identifier: Apache-2.0
// Quest: pages of the cache by an upper bound of their tokens' scores.
//
// Source: Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference, section 3.3 and Algorithm 1: the least
// and the largest key of every page of 16, component by component; a page's score is the sum over components of the
// larger product with the query; the best pages are attended to. The model's first two layers stay dense.
//
// Choices where the paper is silent: over grouped queries, scores are summed within the group, so that a KV head has
// one list (`group=mean_query` scores the mean query, as serving engines do); the newest page is among the chosen ones,
// as in the released kernels (`keep_newest`).
#include <algorithm>
#include <optional>
#include <vector>

#include "common_parameters.h"
#include "kernels/pages_by_bounds.h"
#include "kernels/step_elements.h"
#include "page_bounds.h"
#include "registry.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

enum class Group : uint8_t { kSum, kMeanQuery };

MethodSpec QuestSpec() {
  return {
      .name = "quest",
      .title = "Quest",
      .family = "dynamic selection",
      .paper = "Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference, section 3.3",
      .summary = "Attends to the pages of the cache whose bounds promise the largest scores.",
      .always_keeps = "with keep_newest, the default, the newest page; the first dense_layers of the model are dense",
      .selection_cost = "the bounds of every page, 2 S d / page_size elements, of a step and KV head",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .gives_candidates = true,
      .parameters =
          {
              {.name = "budget",
               .default_value = 1024,
               .minimum = 1,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "tokens attended to, in whole pages, at least one page (the paper: 256 to 4096)",
               .cost = "one more key and value to read per token",
               .role = ParameterRole::kBudget},
              internal::PageSizeParameter("tokens of a page"),
              {.name = "group",
               .type = ParameterType::kChoice,
               .help = "score of a group of queries: the sum of their scores, or the score of their mean",
               .cost = "mean_query estimates once per KV head",
               .choices = {"sum", "mean_query"}},
              {.name = "keep_newest",
               .type = ParameterType::kFlag,
               .default_value = 1,
               .help = "always select the newest page",
               .cost = "takes the place of a page with a larger score"},
              internal::CompressionRatio("budget"),
              internal::DenseLayersParameter(),
          },
  };
}

Status ChooseByBounds(const AttentionProblem& problem, const ParameterValues& values,
                      const internal::PageBounds& bounds, DecodeSelection* selection) {
  const int32_t page_size = values.Integer("page_size"), num_pages = bounds.NumPages();
  const int32_t budget = internal::BudgetInTokens(values, "budget", problem.seq_k);
  const int32_t picks = std::clamp(budget / page_size, 1, num_pages);
  const bool newest = values.Flag("keep_newest");
  std::vector<std::vector<int32_t>> pages;
  for (int32_t list = 0; list < problem.batch * problem.num_kv_heads; ++list) {
    const internal::StepScores step(problem, list / problem.num_kv_heads, list % problem.num_kv_heads);
    std::vector<float> queries = step.queries();
    int32_t num_queries = step.group();
    if (values.Choice<Group>("group") == Group::kMeanQuery) {
      const auto width = static_cast<size_t>(problem.head_dim);
      for (size_t at = width; at < queries.size(); ++at) queries[at % width] += queries[at];
      num_queries = 1;  // the sum: a positive factor changes no order
    }
    std::vector<float> scores = bounds.Scores(list, queries.data(), num_queries);
    if (newest) scores.pop_back();
    pages.push_back(internal::TopK(scores, picks - (newest ? 1 : 0)));
    if (newest) pages.back().push_back(num_pages - 1);
  }
  DecodeSelection chosen = internal::SelectionOfLists(problem, pages);
  chosen.page_size = page_size;
  const StepElements elements = ElementsOf(PagesByBounds{.budget = budget, .page_size = page_size}, problem);
  chosen.elements_to_choose = elements.to_choose;
  chosen.elements_moved = elements.moved;
  *selection = std::move(chosen);
  return {};
}

class QuestMethod final : public internal::PagedSelector {
 public:
  QuestMethod() : PagedSelector(QuestSpec()) {}
  Status SelectByBounds(const AttentionProblem& problem, const ParameterValues& values,
                        const internal::PageBounds& bounds, const RunOptions&,
                        DecodeSelection* selection) const override {
    return ChooseByBounds(problem, values, bounds, selection);
  }
  // Whoever goes on from the pages says himself which layers are dense.
  ParameterValues ForTokensAlone(ParameterValues values) const override {
    values.Set(spec(), internal::kDenseLayers, 0);
    return values;
  }
  std::string_view DenseBy(const ParameterValues& values, int32_t layer) const override {
    return internal::DenseByFirstLayers(values, layer);
  }
};

}  // namespace

std::optional<PagesByBounds> PagesByBoundsOf(const DecodeMethod& method, const ParameterValues& values) {
  // A share of a step's tokens is another number at every step.
  if (&method != &Quest() || values.Real(internal::kCompressionRatio) > 0) return {};
  return PagesByBounds{.budget = values.Integer("budget"),
                       .page_size = values.Integer("page_size"),
                       .mean_query = values.Choice<Group>("group") == Group::kMeanQuery,
                       .keep_newest = values.Flag("keep_newest")};
}

const DecodeMethod& Quest() {
  static const QuestMethod method;
  return method;
}

}  // namespace headscope::kernels
