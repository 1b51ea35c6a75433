// SPDX-License-Identifier: Apache-2.0
// The methods whose budgets are counts, and settings of them that cost less and less.
#pragma once

#include <vector>

#include "kernels/method.h"

namespace headscope::analysis {

std::vector<const kernels::PrefillMethod*> CountedPatterns();
// Its defaults, but every budget what covers that many tokens, halved that often (and rounded, its minimum at least).
kernels::ParameterValues HalvedBudgets(const kernels::MethodSpec& spec, int64_t num_tokens, int halvings);

}  // namespace headscope::analysis
