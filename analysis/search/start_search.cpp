// SPDX-License-Identifier: Apache-2.0
#include "search/start_search.h"

#include <algorithm>
#include <cmath>

#include "search/setting_search.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterSpec;
using kernels::ParameterValues;
using kernels::Status;

// The settings around a start, by how many steps they lie away from it.
class Steps {
 public:
  Steps(const kernels::MethodSpec& spec, const ParameterValues& start, int64_t num_tokens)
      : spec_(spec), start_(start), budgets_(Budgets(spec)), grids_(GridsOf(spec, num_tokens)) {
    for (size_t i = 0; i < budgets_.size(); ++i) {
      const double at = StartOf(i), step = grids_[i].step();
      first_ = std::min(first_, -static_cast<int64_t>(std::ceil((at - grids_[i].minimum()) / step)));
      last_ = std::max(last_, static_cast<int64_t>(std::ceil((grids_[i].maximum() - at) / step)));
    }
  }

  int64_t first() const { return first_; }  // where every budget is at its least
  int64_t last() const { return last_; }

  ParameterValues At(int64_t steps) const {
    ParameterValues values = start_;
    for (size_t i = 0; i < budgets_.size(); ++i) {
      const double moved = StartOf(i) + static_cast<double>(steps) * grids_[i].step();
      // In the grid's range, which is the parameter's own or inside it.
      values.Set(spec_, budgets_[i]->name, std::clamp(moved, grids_[i].minimum(), grids_[i].maximum()));
    }
    return values;
  }

 private:
  double StartOf(size_t budget) const {
    return std::clamp(start_.Real(budgets_[budget]->name), grids_[budget].minimum(), grids_[budget].maximum());
  }

  const kernels::MethodSpec& spec_;
  const ParameterValues& start_;
  const std::vector<const ParameterSpec*> budgets_;
  const std::vector<BudgetGrid> grids_;
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
  const bool reached = before > steps.first();
  const ParameterValues found = steps.At(reached ? before - 1 : steps.first());
  for (SearchedHead& head : *heads) {
    SearchedHead::Mask mask;
    if (Status status = head.Try(method, found, &mask); !status.ok()) return status;
    BudgetSearchResult& result = results->emplace_back();
    if (Status status = Describe(method, found, target, options, mask, &head, &result); !status.ok()) return status;
    result.reached = reached;
    result.num_masks = num_masks + 1;
  }
  return {};
}

}  // namespace headscope::analysis
