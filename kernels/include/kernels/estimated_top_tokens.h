// SPDX-License-Identifier: Apache-2.0
// A decode step that a device may choose and attend in one launch.
#pragma once

#include <cstdint>

namespace headscope::kernels {

// Scores are estimated from the components of q that are largest in absolute value, over a component-major copy of K;
// the tokens with the best estimates and the newest ones are attended; the mean value stands for what is left out, by
// the estimate's share of it (SparQ Attention, algorithm 1).
struct EstimatedTopTokens {
  int32_t rank = 32;         // r: components of q and K that the estimate reads
  int32_t num_tokens = 128;  // k: tokens that are attended, the local window included; at most 1024 on a GPU
  int32_t num_local = 32;    // l: newest tokens that are always attended; at most num_tokens
  bool mean_value = true;    // y = alpha * attention + (1 - alpha) * mean_value; false: alpha is 1
};

}  // namespace headscope::kernels
