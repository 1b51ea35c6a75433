// SPDX-License-Identifier: Apache-2.0
// MInference's way to a setting: from a given start, by steps of its larger budget, to a given amount of work.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/search.h"
#include "search/searched_head.h"

namespace headscope::analysis {

// Of the settings that lie whole steps away from `values` (SearchedGrid says what moves), the last whose tiles are at
// most target.most of the attended pairs (PairsInKernel). *results: one a head; `reached` is false where the smallest
// budgets are too much work, or keep nothing.
kernels::Status FindFromStart(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method,
                              const kernels::ParameterValues& values, const BudgetTarget& target,
                              const BudgetSearchOptions& options, std::vector<BudgetSearchResult>* results);

// A step of that search.
double StepFromStart(const kernels::MethodSpec& spec, const kernels::ParameterValues& start, int64_t num_tokens);

}  // namespace headscope::analysis
