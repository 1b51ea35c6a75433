// SPDX-License-Identifier: Apache-2.0
// Rotary positions. In halves: component j of the turned ones is paired with j + rotary_dim / 2 (Hugging Face's
// convention for the Llama layout). Interleaved: 2j with 2j + 1. Components before first_dim and after the turned ones
// are left as they are.
//
// Two kinds of scaling (dynamic, longrope) depend on the length of the sequence: all chunks of a prompt are turned for
// the whole prompt's length, and every decode step for the length up to itself, while the keys of earlier steps stay as
// they were made. That is what transformers' modules do with a prompt in one pass and a cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/rope_config.h"

namespace headscope::model {

class RotaryEmbedding {
 public:
  RotaryEmbedding(const RopeConfig& rope, const at::Device& device);
  // cos and sin [num_tokens, rotary_dim / 2] fp32 of positions [first, first + num_tokens).
  struct Tables {
    at::Tensor cos, sin;
    bool interleaved = false;
    int32_t first_dim = 0;
  };
  // sequence_length: at least first_position + num_tokens.
  Tables At(int64_t first_position, int64_t num_tokens, int64_t sequence_length);
  // Turns heads [heads, num_tokens, head_dim], in fp32; the result has `heads`' type and is contiguous.
  static at::Tensor Rotate(const at::Tensor& heads, const Tables& tables);

 private:
  // The shortest sequence whose frequencies are those of this one.
  int64_t FrequenciesFor(int64_t sequence_length) const;
  RopeConfig rope_;
  int64_t made_for_ = 0;
  at::Tensor inverse_frequencies_;  // [rotary_dim / 2] fp32
};

}  // namespace headscope::model
