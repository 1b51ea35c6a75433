// SPDX-License-Identifier: Apache-2.0
// The settings of one method that heads share: which of them meets a target at least cost, and which are best for their
// cost. search.h says what is found, and how; what is asked for has been checked before.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "analysis/search.h"
#include "search/budget_grid.h"
#include "search/searched_head.h"
#include "search/setting_front.h"

namespace headscope::analysis {

// What every pair of two budgets keeps of each head, by the mean over its rows: made by one pass over all
// probabilities, and good for any target of that mean, for trade-offs and for kept pairs. Of the method that was
// searched last.
struct MeanFronts {
  const kernels::PrefillMethod* method = nullptr;
  std::optional<kernels::ParameterValues> values;
  std::vector<std::shared_ptr<const SettingFront>> fronts;  // one a head

  bool AreOf(const kernels::PrefillMethod& wanted, const kernels::ParameterValues& with) const {
    return method == &wanted && values && *values == with;
  }
};

// One grid a budget, of a method with one or two.
std::vector<BudgetGrid> GridsOf(const kernels::MethodSpec& spec, int64_t num_tokens);

// A result but for `reached` and the number of masks.
kernels::Status Describe(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                         const BudgetTarget& target, const BudgetSearchOptions& options, const SearchedHead::Mask& mask,
                         SearchedHead* head, BudgetSearchResult* result);

// Whether what a setting keeps, errs by or takes is what the target asks for: one rule for prefill and decode methods.
bool Meets(const BudgetTarget& target, const BudgetSearchResult& result);
// Of a target that is a limit: no pair is kept, which is within any limit and answers none.
bool IsEmptyUnderLimit(const BudgetTarget& target, const BudgetSearchResult& result);

// *results: one a head. `mean_fronts` are taken from, or given back for the next search over the same heads.
kernels::Status FindSetting(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method,
                            const kernels::ParameterValues& values, const BudgetTarget& target,
                            const BudgetSearchOptions& options, MeanFronts* mean_fronts,
                            std::vector<BudgetSearchResult>* results);
kernels::Status FindTradeOff(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method,
                             const kernels::ParameterValues& values, int32_t most_points,
                             const BudgetSearchOptions& options, MeanFronts* mean_fronts,
                             std::vector<TradeOffPoint>* points);

}  // namespace headscope::analysis
