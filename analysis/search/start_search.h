// SPDX-License-Identifier: Apache-2.0
// MInference's way to a setting: from a given start, by steps of all budgets at once, to a given amount of work.
#pragma once

#include <vector>

#include "analysis/search.h"
#include "search/searched_head.h"

namespace headscope::analysis {

// Of the settings that lie whole steps of the grid away from `values`, every budget moved alike and held inside its
// grid, the last whose tiles are at most target.most of the attended pairs (PairsInKernel). *results: one a head;
// `reached` is false where the smallest budgets are too much work.
kernels::Status FindFromStart(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method,
                              const kernels::ParameterValues& values, const BudgetTarget& target,
                              const BudgetSearchOptions& options, std::vector<BudgetSearchResult>* results);

}  // namespace headscope::analysis
