// Whether a selector's choice hangs on rounding: recomputes in float64, from the definitions in docs/methods.md, the
// scores around the cut between what is kept and what is not. CPU and GPU add in different orders, so where two scores
// are closer than fp32 sums can tell, either choice is right.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/method_spec.h"
#include "random_problem.h"

namespace headscope::kernels::testing {

// For the rows of one row tile of a head. Relative distances below this count as a tie: some 100 units of fp32.
constexpr double kTie = 2e-5;

// vertical-slash: the last chosen and the first other column (or diagonal), forced ones aside.
// sample-attention: the last chosen and the first other stripe, or the mass reached and the share.
// block-sparse: the scores of the last chosen and the first other block of the tile's query blocks, relative to the
// product of the pooled rows' lengths.
// Other methods choose nothing: false.
bool ChoiceIsATie(const std::string& method, const RandomProblem& problem, const ParameterValues& values,
                  int32_t sequence, int32_t head, int32_t tile);

}  // namespace headscope::kernels::testing
