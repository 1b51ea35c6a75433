// SPDX-License-Identifier: Apache-2.0
// How a model's KV heads share the tokens that a method which evicts may keep: LU-KV's budget curve, from trade-offs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headscope::app {

// What a KV head keeps of its query heads' mass by tokens kept, both rising. Before the first point as much as lies on
// the line from nothing to it.
struct HeadCurve {
  std::vector<double> tokens, mass;
};

// [ratio, head] for the compression ratios 0.01 to 0.99: the share of its `num_tokens` tokens that each head lets go of
// so that all heads together keep (1 - ratio) of theirs and as much mass as can be. Along each curve's upper concave
// hull, where the best next token of any head is the best of all; of equally good ones that of the first head.
std::vector<std::vector<double>> ShareOutTokens(const std::vector<HeadCurve>& heads, double num_tokens);

}  // namespace headscope::app
