// SPDX-License-Identifier: Apache-2.0
// An eviction of a prompt's tokens that a device may choose by itself, once, when decoding begins.
#pragma once

#include <cstdint>
#include <optional>

namespace headscope::kernels {

class DecodeMethod;
class ParameterValues;

// The prompt's last queries vote: the mean of their softmax and of a KV head's query heads, per token, smoothed over
// neighbours; the tokens with most votes and the voters' own stay, as many in every KV head (SnapKV, section 4).
struct PromptVotes {
  int32_t window = 64;   // last queries of the prompt, all of a shorter one; their own tokens stay
  int32_t kernel = 5;    // neighbours over which votes are smoothed, those before the window alone; 1 .. 1025
  bool maximum = false;  // smoothed by the largest vote, not the mean
  int32_t kept = 0;      // tokens that stay, the window's included
};

// What a device needs that makes the method's choice for a prompt of so many tokens; empty: the method's choice is of
// another kind, or the method refuses these values.
std::optional<PromptVotes> PromptVotesOf(const DecodeMethod& method, const ParameterValues& values, int32_t num_tokens);

}  // namespace headscope::kernels
