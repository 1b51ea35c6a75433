// SPDX-License-Identifier: Apache-2.0
// The k best of a list of scores, with one rule for every method: larger first, equal scores by lower index, NaN last.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headscope::kernels::internal {

// Indices of the min(k, scores.size()) best scores, ascending. O(n) plus sorting the result; the outcome depends on the
// scores alone.
std::vector<int32_t> TopK(std::span<const float> scores, int64_t k);

// Indices of all scores, best first.
std::vector<int32_t> Ranking(std::span<const float> scores);

}  // namespace headscope::kernels::internal
