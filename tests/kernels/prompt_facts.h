// SPDX-License-Identifier: Apache-2.0
// What methods may ask of a prompt beside its tensors and LSE, made for random problems.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/decode_policy.h"
#include "random_problem.h"

namespace headscope::kernels::testing {

// Queries as they were before RoPE turned them, interleaved pairs of some components, and norms of values: what a trace
// may hold of a prompt beside q, k and v.
struct PromptFacts {
  static constexpr int32_t kDims = 8, kFirst = 2;
  static constexpr double kTheta = 100;

  PromptFacts(const RandomProblem& data, int32_t prompt) : q_pre_rope(data.q) {
    const ProblemShape& shape = data.shape;
    for (int32_t sequence = 0; sequence < shape.batch; ++sequence) {
      for (int32_t head = 0; head < shape.num_qo_heads; ++head) {
        for (int32_t row = 0; row < shape.seq_q; ++row) {
          for (int32_t i = 0; i < kDims / 2; ++i) {
            const double angle = row * std::pow(kTheta, -2.0 * i / kDims);
            const int32_t x = kFirst + 2 * i, y = x + 1;
            const auto of_x = static_cast<double>(data.q.Get(sequence, head, row, x));
            const auto of_y = static_cast<double>(data.q.Get(sequence, head, row, y));
            q_pre_rope.Set(sequence, head, row, x,
                           static_cast<float>((of_x * std::cos(angle) + of_y * std::sin(angle)) / 1.5));
            q_pre_rope.Set(sequence, head, row, y,
                           static_cast<float>((of_y * std::cos(angle) - of_x * std::sin(angle)) / 1.5));
          }
        }
        for (int32_t token = 0; token < prompt; ++token)
          value_norms.push_back(0.5f + std::abs(data.v.Get(sequence, head * shape.num_kv_heads / shape.num_qo_heads,
                                                           token, head % shape.head_dim)));
      }
    }
    prompt_ = prompt;
  }
  void Put(DecodePrompt* begin) const {
    begin->q_pre_rope = q_pre_rope.View();
    begin->rope = {.theta = static_cast<float>(kTheta),
                   .num_dims = kDims,
                   .first_dim = kFirst,
                   .interleaved = true,
                   .attention_factor = 1.5f};
    begin->value_norms = value_norms.data();
    begin->value_norms_head_stride = prompt_;
    begin->value_norms_batch_stride = int64_t{prompt_} * begin->cache.num_qo_heads;
  }

  OwnedTensor q_pre_rope;
  std::vector<float> value_norms;  // [batch, num_qo_heads, prompt]
  int32_t prompt_ = 0;
};

}  // namespace headscope::kernels::testing
