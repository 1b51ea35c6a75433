// SPDX-License-Identifier: Apache-2.0
// A copy of the cached keys in four bits: of each key its least component, and 16 levels from there to its largest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_problem.h"

namespace headscope::kernels::internal {

// Grows with the cache: a token is rounded once.
class FourBitKeys {
 public:
  void Clear();
  // Brings the copy up to the problem's tokens; token 0 of `problem` is token `first_token` of the sequence. Where
  // first_token moves, it is made anew.
  void Update(const AttentionProblem& problem, int32_t first_token);
  // scores[i * tokens.size() + j] = cap(scale * query i . rounded key tokens[j]), of `num_queries` rows of `queries`
  // [num_queries, head_dim].
  void Score(int64_t list, const float* queries, int32_t num_queries, std::span<const int32_t> tokens, float scale,
             float soft_cap, float* scores) const;

 private:
  int32_t head_dim_ = 0, first_token_ = 0, num_tokens_ = 0;
  // [list], [tokens, head_dim], 0 to 15 each, as the bf16 numbers that vector code reads.
  std::vector<std::vector<uint16_t>> levels_;
  std::vector<std::vector<float>> least_, step_;  // [list], [tokens]
};

}  // namespace headscope::kernels::internal
