// SPDX-License-Identifier: Apache-2.0
// A decode step that a device may choose and attend in one launch.
#pragma once

#include <cstdint>
#include <optional>

namespace headscope::kernels {

class DecodeMethod;
class ParameterValues;
struct AttentionProblem;

// Scores are estimated from the components of q that are largest in absolute value, over a component-major copy of K or
// over K itself; the tokens with the best estimates and the newest ones are attended; the mean value stands for what is
// left out, by the estimate's share of it (SparQ Attention, algorithm 1).
struct EstimatedTopTokens {
  int32_t rank = 32;         // r: components of q and K that the estimate reads
  int32_t num_tokens = 128;  // k: tokens that are attended, the local window included; at most 1024 on a GPU
  int32_t num_local = 32;    // l: newest tokens that are always attended; at most num_tokens
  bool mean_value = true;    // y = alpha * attention + (1 - alpha) * mean_value; false: alpha is 1
};

// The method's choice in a step of the problem, where it is of this kind; empty: it is of another one, or these values
// estimate in a way that this does not say.
std::optional<EstimatedTopTokens> EstimatedTopTokensOf(const DecodeMethod& method, const ParameterValues& values,
                                                       const AttentionProblem& problem);

}  // namespace headscope::kernels
