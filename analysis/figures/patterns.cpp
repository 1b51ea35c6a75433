// SPDX-License-Identifier: Apache-2.0
#include "figures/patterns.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/search.h"
#include "base/errors.h"

namespace headscope::analysis {

std::vector<const kernels::PrefillMethod*> SearchablePatterns() {
  std::vector<const kernels::PrefillMethod*> patterns;
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) {
    if (CheckSearchable(method->spec()).ok()) patterns.push_back(method);
  }
  return patterns;
}

std::vector<const kernels::PrefillMethod*> CountedPatterns() {
  std::vector<const kernels::PrefillMethod*> patterns = SearchablePatterns();
  std::erase_if(patterns, [](const kernels::PrefillMethod* method) {
    return std::ranges::any_of(Budgets(method->spec()), [](const kernels::ParameterSpec* budget) {
      return budget->type != kernels::ParameterType::kInteger;
    });
  });
  return patterns;
}

kernels::ParameterValues HalvedBudgets(const kernels::MethodSpec& spec, int64_t num_tokens, int halvings) {
  kernels::ParameterValues values(spec);
  for (const SearchedBudget& budget : SearchedGrid(spec, num_tokens)) {
    constexpr int kLeastLeftOut = 8;  // 2^-8 of the mass
    const double value = budget.integer ? std::max(budget.minimum, std::round(budget.maximum * std::exp2(-halvings)))
                                        : budget.maximum - std::exp2(halvings - kLeastLeftOut);
    if (const std::string why = values.Set(spec, budget.name, value); !why.empty()) throw UsageError(why);
  }
  return values;
}

}  // namespace headscope::analysis
