#include "model/rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/where.h>

#include <numbers>

namespace headscope::capture {

// All in fp32 and in the order of operations that transformers uses: at position 16,000 one unit in the last place of a
// frequency is 1e-3 rad.
RotaryEmbedding::RotaryEmbedding(const RopeConfig& rope, int32_t head_dim, const at::Device& device) {
  const at::Tensor exponents = at::arange(0, head_dim, 2, at::kFloat).div(head_dim);
  at::Tensor frequencies = at::pow(rope.theta, exponents).reciprocal();
  switch (rope.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear:
      frequencies = frequencies.div(rope.factor);
      break;
    case RopeType::kLlama3: {
      const auto original = static_cast<double>(rope.original_max_positions);
      const double longest_kept = original / rope.high_freq_factor;
      const double shortest_stretched = original / rope.low_freq_factor;
      const at::Tensor wavelengths = frequencies.reciprocal().mul(2 * std::numbers::pi);
      const at::Tensor stretched = frequencies.div(rope.factor);
      const at::Tensor smooth = wavelengths.reciprocal()
                                    .mul(original)
                                    .sub(rope.low_freq_factor)
                                    .div(rope.high_freq_factor - rope.low_freq_factor);
      const at::Tensor between = smooth.neg().add(1).mul(stretched).add(smooth.mul(frequencies));
      const at::Tensor outer_bands = at::where(wavelengths.gt(shortest_stretched), stretched, frequencies);
      const at::Tensor in_between = wavelengths.ge(longest_kept).logical_and(wavelengths.le(shortest_stretched));
      frequencies = at::where(in_between, between, outer_bands);
      break;
    }
  }
  inverse_frequencies_ = frequencies.to(device);
}

RotaryEmbedding::Tables RotaryEmbedding::At(int64_t first_position, int64_t num_tokens) const {
  const at::Tensor positions = at::arange(first_position, first_position + num_tokens, inverse_frequencies_.options());
  const at::Tensor angles = at::outer(positions, inverse_frequencies_);
  return {at::cos(angles), at::sin(angles)};
}

at::Tensor RotaryEmbedding::Rotate(const at::Tensor& heads, const Tables& tables) {
  const int64_t half = heads.size(-1) / 2;
  const at::Tensor low = heads.narrow(-1, 0, half).to(at::kFloat);
  const at::Tensor high = heads.narrow(-1, half, half).to(at::kFloat);
  return at::cat({low * tables.cos - high * tables.sin, high * tables.cos + low * tables.sin}, -1)
      .to(heads.scalar_type());
}

}  // namespace headscope::capture
