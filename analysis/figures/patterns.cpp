// SPDX-License-Identifier: Apache-2.0
#include "figures/patterns.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "analysis/search.h"
#include "base/errors.h"

namespace headscope::analysis {

std::vector<const kernels::PrefillMethod*> CountedPatterns() {
  std::vector<const kernels::PrefillMethod*> patterns;
  for (const kernels::PrefillMethod* method : kernels::PrefillMethods()) {
    const std::vector<const kernels::ParameterSpec*> budgets = Budgets(method->spec());
    const bool counts = std::all_of(budgets.begin(), budgets.end(), [](const kernels::ParameterSpec* budget) {
      return budget->type == kernels::ParameterType::kInteger;
    });
    if (counts && CheckSearchable(method->spec()).ok()) patterns.push_back(method);
  }
  return patterns;
}

kernels::ParameterValues HalvedBudgets(const kernels::MethodSpec& spec, int64_t num_tokens, int halvings) {
  kernels::ParameterValues values(spec);
  for (const SearchedBudget& budget : SearchedGrid(spec, num_tokens)) {
    const double value = std::max(budget.minimum, std::round(budget.maximum * std::exp2(-halvings)));
    if (const std::string why = values.Set(spec, budget.name, value); !why.empty()) throw UsageError(why);
  }
  return values;
}

}  // namespace headscope::analysis
