// SPDX-License-Identifier: Apache-2.0
// The methods with budgets, and settings of them that cost less and less.
#pragma once

#include <vector>

#include "kernels/method.h"

namespace headscope::analysis {

// Those with one budget or two, counts or shares of mass; and those alone whose budgets are counts.
std::vector<const kernels::PrefillMethod*> SearchablePatterns();
std::vector<const kernels::PrefillMethod*> CountedPatterns();
// Its defaults, but every count what covers that many tokens, halved that often (and rounded, its minimum at least);
// what a share leaves out is 1/256, doubled that often.
kernels::ParameterValues HalvedBudgets(const kernels::MethodSpec& spec, int64_t num_tokens, int halvings);

}  // namespace headscope::analysis
