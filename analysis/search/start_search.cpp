// SPDX-License-Identifier: Apache-2.0
#include "search/start_search.h"

#include <algorithm>
#include <cmath>

#include "search/setting_search.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterSpec;
using kernels::ParameterType;
using kernels::ParameterValues;
using kernels::Status;

// The settings around a start. The larger budget moves, and one that it comes down to moves along: MInference's own
// configurations hold the few columns of a head and move its many slashes.
class Steps {
 public:
  Steps(const kernels::MethodSpec& spec, const ParameterValues& start, int64_t num_tokens)
      : spec_(spec), start_(start) {
    const std::vector<const ParameterSpec*> budgets = Budgets(spec);
    const std::vector<BudgetGrid> grids = GridsOf(spec, num_tokens);
    for (size_t i = 0; i < budgets.size(); ++i) {
      const BudgetGrid& grid = grids[i];
      const double at = std::clamp(start.Real(budgets[i]->name), grid.minimum(), grid.maximum());
      // A budget that the start has keeps something.
      const double least = budgets[i]->type == ParameterType::kInteger ? std::max(grid.minimum(), 1.0) : grid.minimum();
      moved_.push_back({budgets[i], at, std::min(at, least), grid.maximum()});
      top_ = std::max(top_, at);
    }
    double lowest = top_, highest = top_;
    for (size_t i = 0; i < moved_.size(); ++i) {
      if (moved_[i].start == top_) step_ = StepFrom(*budgets[i], grids[i].step(), top_);
      lowest = std::min(lowest, moved_[i].minimum);
      highest = std::max(highest, moved_[i].maximum);
    }
    first_ = -static_cast<int64_t>(std::ceil((top_ - lowest) / step_));
    last_ = static_cast<int64_t>(std::ceil((highest - top_) / step_));
  }

  double step() const { return step_; }
  int64_t first() const { return first_; }  // where every budget is at its least
  int64_t last() const { return last_; }

  ParameterValues At(int64_t steps) const {
    const double level = top_ + static_cast<double>(steps) * step_;
    ParameterValues values = start_;
    for (const Moved& moved : moved_) {
      const double wanted = moved.start == top_ ? level : std::min(moved.start, level);
      values.Set(spec_, moved.budget->name, std::clamp(wanted, moved.minimum, moved.maximum));
    }
    return values;
  }

 private:
  struct Moved {
    const ParameterSpec* budget = nullptr;
    double start = 0, minimum = 0, maximum = 0;
  };

  // The registry's, which is meant for long prompts, unless the start has fewer than kFewestSteps of it: the paper's 50
  // lines are as many of the 1500 that the least of its starts has.
  static double StepFrom(const ParameterSpec& budget, double of_grid, double start) {
    if (budget.type != ParameterType::kInteger) return of_grid;
    constexpr double kFewestSteps = 30;
    return std::clamp(std::floor(start / kFewestSteps), 1.0, std::max(std::min(of_grid, budget.step), 1.0));
  }

  const kernels::MethodSpec& spec_;
  const ParameterValues& start_;
  std::vector<Moved> moved_;
  double top_ = 0;   // the largest budget of the start
  double step_ = 1;  // of the level that no budget is above
  int64_t first_ = 0, last_ = 0;
};

}  // namespace

Status FindFromStart(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method,
                     const ParameterValues& values, const BudgetTarget& target, const BudgetSearchOptions& options,
                     std::vector<BudgetSearchResult>* results) {
  int64_t num_pairs = 0, longest = 0;
  for (const SearchedHead& head : *heads) {
    num_pairs += head.num_pairs();
    longest = std::max(longest, head.LongestRecording());
  }
  const Steps steps(method.spec(), values, longest);
  const double most = target.most * static_cast<double>(num_pairs);
  int32_t num_masks = 0;
  // The first step that is too much work; more of a budget is no less.
  int64_t before = steps.first(), behind = steps.last() + 1;
  while (before < behind) {
    const int64_t middle = before + (behind - before) / 2;
    double work = 0;
    for (SearchedHead& head : *heads) {
      int64_t pairs = 0;
      if (Status status = head.Work(method, steps.At(middle), &pairs); !status.ok()) return status;
      work += static_cast<double>(pairs);
    }
    ++num_masks;
    (work > most ? behind : before) = work > most ? middle : middle + 1;
    if (options.progress) options.progress(0.9 / static_cast<double>(1 + behind - before));
  }
  const bool within = before > steps.first();
  const ParameterValues found = steps.At(within ? before - 1 : steps.first());
  for (SearchedHead& head : *heads) {
    SearchedHead::Mask mask;
    if (Status status = head.Try(method, found, &mask); !status.ok()) return status;
    BudgetSearchResult& result = results->emplace_back();
    if (Status status = Describe(method, found, target, options, mask, &head, &result); !status.ok()) return status;
    result.reached = within && !IsEmptyUnderLimit(target, result);
    result.num_masks = num_masks + 1;
  }
  return {};
}

double StepFromStart(const kernels::MethodSpec& spec, const ParameterValues& start, int64_t num_tokens) {
  return Steps(spec, start, num_tokens).step();
}

}  // namespace headscope::analysis
