// The cheapest setting of a method that keeps a wanted mass of one head: what the window's "Meet target" and
// `headscope tune` do.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/types/mass_distribution.h"

namespace headscope::analysis {

struct BudgetTarget {
  double mass = 0.95;  // 0 to 1
  // Which statistic of the rows' kept mass must reach it. The minimum is SampleAttention's CRA; the fifth percentile
  // lets fewer than 5 % of the rows stay below and is not decided by a single row; the mean is what the head as a whole
  // keeps.
  MassStatistic statistic = MassStatistic::kFifthPercentile;
};

struct BudgetSearchOptions {
  int32_t num_threads = 0;
  const std::atomic<bool>* cancelled = nullptr;
  // Masks made so far, and how many it takes at most. Called on the caller's thread.
  std::function<void(int32_t made, int32_t most)> progress = {};
};

struct BudgetSearchResult {
  // False: not even the largest budgets reach the target. The rest then describes those.
  bool reached = false;
  kernels::ParameterValues values;  // `values` of the call with the budgets moved
  double kept_fraction = 0;         // kept pairs / pairs that the model sees
  MassDistribution mass;
  int32_t num_masks = 0;  // made on the way
};

// The parameters that SearchBudget moves: those that the registry marks as budgets, in its order.
std::vector<const kernels::ParameterSpec*> Budgets(const kernels::MethodSpec& spec);

// Whether SearchBudget takes the method, before any head is read: kUnsupported, with the reason, when it has no budgets
// or more than two.
kernels::Status CheckSearchable(const kernels::MethodSpec& spec);

// Moves the parameters that the registry marks as budgets (kernels::ParameterRole) and leaves the others at `values`.
//
// Method: each budget has a grid, its minimum, the multiples of its step, and its maximum (or, for integers, the
// sequence length, above which a budget changes nothing). Kept sets grow with a budget, so with one budget bisection
// gives the least grid value that reaches the target. With two, the border between enough and too little is walked on a
// coarse grid (doubling for logarithmic parameters; tenths for shares of mass, and hundredths above 0.9), the border
// point with the fewest kept pairs is taken, and each budget is then lowered by bisection on the fine grid while the
// other stands: at the end neither can be lowered alone by a step. Never runs attention; some 10 masks for one budget
// and 30 to 50 for two, all with the head's block masses.
//
// Errors: a method without budgets or with more than two; a target outside 0 to 1; cancelled; what PreviewMask refuses.
kernels::Status SearchBudget(const HeadMass& mass, const kernels::PrefillMethod& method,
                             const kernels::ParameterValues& values, const BudgetTarget& target,
                             const BudgetSearchOptions& options, BudgetSearchResult* result);
// One setting for several recordings of one head (other prompts, other lengths): their rows together make the
// distribution, and their pairs together the kept fraction. Integer budgets go up to the longest one's tokens. Masses
// are not null and at least one.
kernels::Status SearchBudget(std::span<const HeadMass* const> masses, const kernels::PrefillMethod& method,
                             const kernels::ParameterValues& values, const BudgetTarget& target,
                             const BudgetSearchOptions& options, BudgetSearchResult* result);

// "SampleAttention keeps at most 0.93 of the mass of 95 % of the queries, with alpha_c and alpha_s at their largest:
// choose a target of at most 0.93.": of a search that did not reach its target.
std::string UnreachedSentence(const kernels::MethodSpec& spec, const BudgetTarget& target,
                              const BudgetSearchResult& result);

}  // namespace headscope::analysis
