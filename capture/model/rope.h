// Rotary positions in halves: component j is paired with j + head_dim / 2 (Hugging Face's convention for the Llama
// layout).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "checkpoint/model_config.h"

namespace headscope::capture {

class RotaryEmbedding {
 public:
  RotaryEmbedding(const RopeConfig& rope, int32_t head_dim, const at::Device& device);
  // cos and sin [num_tokens, head_dim / 2] fp32 of positions [first, first + num_tokens).
  struct Tables {
    at::Tensor cos, sin;
  };
  Tables At(int64_t first_position, int64_t num_tokens) const;
  // Turns heads [heads, num_tokens, head_dim], in fp32; the result has `heads`' type and is contiguous.
  static at::Tensor Rotate(const at::Tensor& heads, const Tables& tables);

 private:
  at::Tensor inverse_frequencies_;  // [head_dim / 2] fp32
};

}  // namespace headscope::capture
