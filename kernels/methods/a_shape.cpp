// SPDX-License-Identifier: Apache-2.0
// MInference A-shape (the prefill form of StreamingLLM): the first tokens and a sliding window, the same for every
// head.
//
// Source: MInference 1.0, section 3.2 and Table 6. Kept: column < n_sink or position - column < n_local. The window
// counts the diagonal (the paper leaves that open), so a row keeps min(position + 1, n_sink + n_local) tokens.
#include <algorithm>

#include "head_groups.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

MethodSpec AShapeSpec() {
  return {
      .name = "a-shape",
      .title = "MInference A-shape",
      .family = "static pattern",
      .paper =
          "MInference 1.0: Accelerating Pre-filling for Long-Context LLMs via Dynamic Sparse Attention, section 3.2",
      .summary = "Keeps the first n_sink tokens and the newest n_local tokens of every row.",
      .always_keeps = "the whole pattern, the same in every head",
      .selection_cost = "nothing",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kPlace,
      .minference = {.name = "stream_llm", .first = "n_sink", .second = "n_local"},
      .parameters =
          {
              {.name = "n_sink",
               .default_value = 1024,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "first tokens that every row keeps",
               .cost = "one more pair per row and token",
               .role = ParameterRole::kBudget,
               .scaled_floor = 32},
              {.name = "n_local",
               .default_value = 4096,
               .minimum = 1,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "newest tokens that every row keeps, including its own",
               .cost = "one more pair per row and token",
               .role = ParameterRole::kBudget,
               .scaled_floor = 32},
          },
  };
}

// A row keeps column j from the first budget above j on, or from the second that reaches back to it.
class AShapeEntries final : public BudgetEntries {
 public:
  AShapeEntries(int32_t first_position, std::span<const double> sinks, std::span<const double> windows)
      : BudgetEntries(1),
        first_position_(first_position),
        sinks_(sinks.begin(), sinks.end()),
        windows_(windows.begin(), windows.end()) {}
  bool IsElementRule() const override { return true; }
  void AppendRuns(int32_t block, std::vector<EntryRun>* runs) const override {
    const int64_t end = int64_t{first_position_} + block + 1;
    // Sinks grow from the left as windows, from the largest to the least, shrink towards the right.
    size_t sink = 0;
    size_t window = windows_.size();
    int64_t begin = 0;
    while (begin < end) {
      while (sink < sinks_.size() && sinks_[sink] <= static_cast<double>(begin)) ++sink;
      while (window > 0 && static_cast<double>(end - begin) <= windows_[window - 1]) --window;
      int64_t next = end;
      if (sink < sinks_.size()) next = static_cast<int64_t>(std::min(static_cast<double>(next), sinks_[sink]));
      if (window > 0) next = std::min(next, end - static_cast<int64_t>(windows_[window - 1]));
      AppendEntryRun(static_cast<int32_t>(begin), static_cast<int32_t>(next), static_cast<int32_t>(sink),
                     static_cast<int32_t>(window), runs);
      begin = next;
    }
  }

 private:
  const int32_t first_position_;
  const std::vector<double> sinks_, windows_;
};

class AShapeMethod final : public internal::PrefillSelector {
 public:
  AShapeMethod() : PrefillSelector(AShapeSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions&,
                SparseIndex* index) const override {
    const ElementRule rule{MaskKind::kCausalWindow, values.Integer("n_local"), values.Integer("n_sink")};
    *index = internal::IndexOfRule(problem, rule);
    return {};
  }
  std::unique_ptr<BudgetEntries> Enter(const AttentionProblem& problem, const ParameterValues&,
                                       std::span<const double> first, std::span<const double> second,
                                       const RunOptions&) const override {
    return std::make_unique<AShapeEntries>(problem.first_position, first, second);
  }
};

}  // namespace

const PrefillMethod& AShape() {
  static const AShapeMethod method;
  return method;
}

}  // namespace headscope::kernels
