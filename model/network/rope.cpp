// SPDX-License-Identifier: Apache-2.0
#include "network/rope.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace headscope::model {
namespace {

// All in fp32 and in the order of operations that transformers uses: at position 16,000 one unit in the last place of a
// frequency is 1e-3 rad.

// theta^(2j / rotary_dim), the wavelengths over 2 pi.
at::Tensor Powers(double theta, int32_t rotary_dim) {
  return at::pow(theta, at::arange(0, rotary_dim, 2, at::kFloat).div(rotary_dim));
}

at::Tensor Llama3(const RopeConfig& rope, const at::Tensor& frequencies) {
  const auto original = static_cast<double>(rope.original_max_positions);
  const double longest_kept = original / rope.high_freq_factor;
  const double shortest_stretched = original / rope.low_freq_factor;
  const at::Tensor wavelengths = frequencies.reciprocal().mul(2 * std::numbers::pi);
  const at::Tensor stretched = frequencies.div(rope.factor);
  const at::Tensor outer_bands = at::where(wavelengths.gt(shortest_stretched), stretched, frequencies);
  if (longest_kept == shortest_stretched) return outer_bands;  // Llama 4: nothing lies between them
  const at::Tensor smooth = wavelengths.reciprocal()
                                .mul(original)
                                .sub(rope.low_freq_factor)
                                .div(rope.high_freq_factor - rope.low_freq_factor);
  const at::Tensor between = smooth.neg().add(1).mul(stretched).add(smooth.mul(frequencies));
  const at::Tensor in_between = wavelengths.ge(longest_kept).logical_and(wavelengths.le(shortest_stretched));
  return at::where(in_between, between, outer_bands);
}

// Source: YaRN (arXiv 2309.00071), section 3.2, with the ramp over the frequencies' numbers.
at::Tensor Yarn(const RopeConfig& rope, const at::Tensor& powers) {
  const double dim = rope.rotary_dim;
  // The number of the frequency that makes so many turns over the original length.
  const auto number_of = [&](double turns) {
    return dim * std::log(static_cast<double>(rope.original_max_positions) / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = number_of(rope.beta_fast);
  double high = number_of(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  const at::Tensor ramp = at::arange(0, rope.rotary_dim / 2, at::kFloat).sub(low).div(high - low).clamp(0, 1);
  const at::Tensor kept = ramp.neg().add(1);
  return powers.mul(rope.factor).reciprocal().mul(kept.neg().add(1)).add(powers.reciprocal().mul(kept));
}

double DynamicTheta(const RopeConfig& rope, int64_t sequence_length) {
  const auto factor = static_cast<float>(rope.factor);
  const float stretch = factor * static_cast<float>(sequence_length) / static_cast<float>(rope.max_positions) -
                        static_cast<float>(rope.factor - 1);
  const double dim = rope.rotary_dim;
  return static_cast<float>(rope.theta) * std::pow(stretch, static_cast<float>(dim / (dim - 2)));
}

at::Tensor InverseFrequencies(const RopeConfig& rope, int64_t sequence_length) {
  const at::Tensor powers = Powers(rope.theta, rope.rotary_dim);
  switch (rope.type) {
    case RopeType::kDefault:
      break;
    case RopeType::kLinear:
      return powers.reciprocal().div(rope.factor);
    case RopeType::kDynamic:
      if (sequence_length <= rope.max_positions) break;
      return Powers(DynamicTheta(rope, sequence_length), rope.rotary_dim).reciprocal();
    case RopeType::kYarn:
      return Yarn(rope, powers);
    case RopeType::kLongRope: {
      const bool is_long = sequence_length > rope.original_max_positions;
      return at::tensor(is_long ? rope.long_factors : rope.short_factors, at::kFloat).mul(powers).reciprocal();
    }
    case RopeType::kLlama3:
      return Llama3(rope, powers.reciprocal());
    case RopeType::kProportional: {
      at::Tensor frequencies = powers.reciprocal();
      frequencies.slice(0, rope.turned_pairs).zero_();
      return frequencies.div_(rope.factor);
    }
  }
  return powers.reciprocal();
}

}  // namespace

RotaryEmbedding::RotaryEmbedding(const RopeConfig& rope, const at::Device& device)
    : rope_(rope), inverse_frequencies_(InverseFrequencies(rope, 0).to(device)) {}

int64_t RotaryEmbedding::FrequenciesFor(int64_t sequence_length) const {
  switch (rope_.type) {
    case RopeType::kDynamic:
      return sequence_length > rope_.max_positions ? sequence_length : 0;
    case RopeType::kLongRope:
      return sequence_length > rope_.original_max_positions ? rope_.original_max_positions + 1 : 0;
    default:
      return 0;
  }
}

RotaryEmbedding::Tables RotaryEmbedding::At(int64_t first_position, int64_t num_tokens, int64_t sequence_length) {
  if (const int64_t wanted = FrequenciesFor(sequence_length); wanted != made_for_) {
    inverse_frequencies_ = InverseFrequencies(rope_, wanted).to(inverse_frequencies_.device());
    made_for_ = wanted;
  }
  const at::Tensor positions = at::arange(first_position, first_position + num_tokens, inverse_frequencies_.options());
  const at::Tensor angles = at::outer(positions, inverse_frequencies_);
  Tables tables{at::cos(angles), at::sin(angles), rope_.interleaved, rope_.first_dim};
  if (rope_.attention_factor != 1) {
    tables.cos.mul_(rope_.attention_factor);
    tables.sin.mul_(rope_.attention_factor);
  }
  return tables;
}

at::Tensor RotaryEmbedding::Rotate(const at::Tensor& heads, const Tables& tables) {
  const int64_t half = tables.cos.size(-1);
  const int64_t first = tables.first_dim, after = heads.size(-1) - 2 * half - first;
  const int64_t step = tables.interleaved ? 2 : 1;
  const at::Tensor turned = heads.narrow(-1, first, 2 * half).to(at::kFloat);
  const at::Tensor low = turned.slice(-1, 0, step * half, step);
  const at::Tensor high = turned.slice(-1, tables.interleaved ? 1 : half, 2 * half, step);
  const at::Tensor turned_low = low * tables.cos - high * tables.sin;
  const at::Tensor turned_high = high * tables.cos + low * tables.sin;
  const at::Tensor both = tables.interleaved ? at::stack({turned_low, turned_high}, -1).flatten(-2)
                                             : at::cat({turned_low, turned_high}, -1);
  if (first + after == 0) return both.to(heads.scalar_type());
  const at::Tensor plain = heads.to(at::kFloat);
  return at::cat({plain.narrow(-1, 0, first), both, plain.narrow(-1, first + 2 * half, after)}, -1)
      .to(heads.scalar_type());
}

}  // namespace headscope::model
