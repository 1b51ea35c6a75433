// SPDX-License-Identifier: Apache-2.0
// LServe's choice of pages: Quest's bounds of small pages inside large ones, and a choice that serves several steps.
//
// Source: LServe: Efficient Long-sequence LLM Serving with Unified Sparse Attention, sections 3.4 and 3.5, and its
// released code: a physical page of `page_size` tokens has as many logical ones of `logical_size`, whose least and
// largest keys bound a token's score; a physical page has the largest score of its logical ones. Attended to are the
// best pages of `budget` tokens, three at least, the newest among them; the choice is made anew at every `interval`-th
// token and reused in between. Its streaming heads are duo-attention's.
//
// Choices where the source is silent: over grouped queries bounds are summed within the group. A page that has begun
// since the last choice is attended to.
#include <algorithm>
#include <memory>
#include <vector>

#include "common_parameters.h"
#include "page_bounds.h"
#include "registry.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec LServeSpec() {
  return {
      .name = "l-serve",
      .title = "LServe page selection",
      .family = "dynamic selection",
      .paper = "LServe: Efficient Long-sequence LLM Serving with Unified Sparse Attention, sections 3.4 and 3.5",
      .summary = "Attends to the pages that their parts' bounds favour, selected once for several steps.",
      .always_keeps = "the newest page, and three pages at the least",
      .selection_cost =
          "the bounds of every logical page, 2 S d / logical_size elements, at every interval-th step, a KV head",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .gives_candidates = true,
      .parameters =
          {
              {.name = "budget",
               .default_value = 4096,
               .minimum = 1,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "tokens attended to, in whole pages, at least three pages",
               .cost = "one more key and value to read per token",
               .role = ParameterRole::kBudget},
              {.name = "logical_size",
               .default_value = 16,
               .minimum = 1,
               .maximum = 1024,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "tokens whose bounds are kept together",
               .cost = "bounds are fewer and looser"},
              {.name = "logical_pages",
               .default_value = 4,
               .minimum = 1,
               .maximum = 64,
               .help = "logical pages per page: a page has logical_size times as many tokens",
               .cost = "pages are larger and bring in more irrelevant tokens"},
              {.name = "interval",
               .default_value = 4,
               .minimum = 1,
               .maximum = 1024,
               .help = "decode steps that share a selection",
               .cost = "selection takes proportionally less time, but is based on an older query"},
              internal::CompressionRatio("budget"),
          },
  };
}

class LServePolicy final : public DecodePolicy {
 public:
  explicit LServePolicy(const ParameterValues& values)
      : values_(values),
        logical_pages_(values.Integer("logical_pages")),
        page_size_(values.Integer("logical_size") * logical_pages_),
        interval_(values.Integer("interval")),
        bounds_(values.Integer("logical_size")) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions&, DecodeEvictions*) override {
    bounds_.Clear();
    chosen_.clear();
    if (prompt.cache.seq_k > 0) bounds_.Update(prompt.cache, prompt.first_token);
    return {};
  }
  Status Append(const DecodeStep& step, const RunOptions&) override {
    bounds_.Update(step.problem, step.first_token);
    return {};
  }

  Status Step(const DecodeStep& step, const RunOptions&, DecodeSelection* selection, DecodeEvictions*) override {
    const AttentionProblem& problem = step.problem;
    const int32_t num_pages = (problem.seq_k + page_size_ - 1) / page_size_;
    const auto num_lists = static_cast<size_t>(int64_t{problem.batch} * problem.num_kv_heads);
    // The tokens before the step's own are what the released code counts.
    const bool due = (step.first_token + problem.seq_k - 1) % interval_ == 0;
    const bool anew = due || chosen_.size() != num_lists || step.first_token != first_token_;
    if (anew) {
      first_token_ = step.first_token;
      pages_then_ = num_pages;
      chosen_.assign(num_lists, {});
      for (size_t list = 0; list < num_lists; ++list) chosen_[list] = Choose(problem, static_cast<int64_t>(list));
    }
    std::vector<std::vector<int32_t>> pages = chosen_;
    int64_t total = 0;
    for (std::vector<int32_t>& list : pages) {
      for (int32_t page = pages_then_; page < num_pages; ++page) list.push_back(page);
      total += static_cast<int64_t>(list.size());
    }
    *selection = internal::SelectionOfLists(problem, pages);
    selection->page_size = page_size_;
    // Both bounds of every logical page where they are looked at; keys and values of the pages; the new ones.
    const int64_t tokens = std::min<int64_t>(total / static_cast<int64_t>(num_lists) * page_size_, problem.seq_k);
    selection->elements_to_choose = anew ? 2 * int64_t{bounds_.NumPages()} * problem.head_dim : 0;
    selection->elements_moved = selection->elements_to_choose + (tokens + 1) * (problem.head_dim + problem.ValueDim());
    return {};
  }

 private:
  std::vector<int32_t> Choose(const AttentionProblem& problem, int64_t list) const {
    const int32_t num_pages = (problem.seq_k + page_size_ - 1) / page_size_;
    const int32_t budget = internal::BudgetInTokens(values_, "budget", problem.seq_k);
    const int32_t picks =
        problem.seq_k - 1 <= budget ? num_pages : std::min(std::max(3, budget / page_size_), num_pages);
    const internal::StepScores step(problem, static_cast<int32_t>(list / problem.num_kv_heads),
                                    static_cast<int32_t>(list % problem.num_kv_heads));
    const std::vector<float> logical = bounds_.Scores(list, step.queries().data(), step.group());
    std::vector<float> scores;
    for (size_t begin = 0; begin < logical.size(); begin += static_cast<size_t>(logical_pages_)) {
      const size_t end = std::min(begin + static_cast<size_t>(logical_pages_), logical.size());
      scores.push_back(*std::max_element(logical.begin() + static_cast<int64_t>(begin),
                                         logical.begin() + static_cast<int64_t>(end)));
    }
    scores.pop_back();
    std::vector<int32_t> pages = internal::TopK(scores, picks - 1);
    pages.push_back(num_pages - 1);
    return pages;
  }

  const ParameterValues values_;
  const int32_t logical_pages_, page_size_, interval_;
  internal::PageBounds bounds_;
  std::vector<std::vector<int32_t>> chosen_;  // pages, by list
  int32_t pages_then_ = 0, first_token_ = 0;  // when they were chosen
};

class LServeMethod final : public DecodeMethod {
 public:
  LServeMethod() : spec_(LServeSpec()) {}
  const MethodSpec& spec() const override { return spec_; }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<LServePolicy>(values);
  }

 private:
  const MethodSpec spec_;
};

}  // namespace

const DecodeMethod& LServe() {
  static const LServeMethod method;
  return method;
}

}  // namespace headscope::kernels
