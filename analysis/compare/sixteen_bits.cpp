// SPDX-License-Identifier: Apache-2.0
#include "compare/sixteen_bits.h"

#include <algorithm>
#include <bit>

#include "base/element_type.h"
#include "data/trace_reader.h"
#include "kernels/bfloat16.h"

namespace headscope::analysis {
namespace {

using kernels::DType;

bool NarrowExactly(float value, DType dtype, uint16_t* narrow) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (dtype == DType::kBFloat16) {
    *narrow = static_cast<uint16_t>(bits >> 16);
    return (bits & 0xFFFFu) == 0;
  }
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const auto exponent = static_cast<int32_t>((bits >> 23) & 0xFFu) - 127;
  if ((bits & 0x7FFFFFFFu) == 0) {
    *narrow = static_cast<uint16_t>(sign);
    return true;
  }
  if (exponent < -24 || exponent > 15) return false;
  // Below 2^-14, fp16 has a fixed point: the leading one is written out, and the fraction loses a bit per power.
  const int32_t lost = 13 + std::max(0, -14 - exponent);
  const uint32_t significand = (bits & 0x7FFFFFu) | 0x800000u;
  if ((significand & ((1u << lost) - 1)) != 0) return false;
  // The leading one carries into the exponent's field.
  const uint32_t biased = exponent < -14 ? 0u : static_cast<uint32_t>(exponent + 14) << 10;
  *narrow = static_cast<uint16_t>(sign | (biased + (significand >> lost)));
  return true;
}

// Finite input (LoadHead refuses anything else).
std::vector<uint16_t> RoundToBFloat16(std::span<const float> values) {
  std::vector<uint16_t> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), &kernels::RoundToBFloat16);
  return rounded;
}

}  // namespace

bool NarrowExactly(std::span<const float> values, DType dtype, std::vector<uint16_t>* narrow) {
  narrow->resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!NarrowExactly(values[i], dtype, &(*narrow)[i])) return false;
  }
  return true;
}

kernels::AttentionProblem SixteenBits::Of(kernels::AttentionProblem problem) const {
  problem.dtype = dtype;
  problem.q.data = q.data();
  problem.k.data = k.data();
  problem.v.data = v.data();
  return problem;
}

SixteenBits ToSixteenBits(std::span<const float> q, std::span<const float> k, std::span<const float> v) {
  SixteenBits narrow;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    narrow.dtype = dtype;
    narrow.exact =
        NarrowExactly(q, dtype, &narrow.q) && NarrowExactly(k, dtype, &narrow.k) && NarrowExactly(v, dtype, &narrow.v);
    if (narrow.exact) return narrow;
  }
  narrow.dtype = DType::kBFloat16;
  narrow.q = RoundToBFloat16(q);
  narrow.k = RoundToBFloat16(k);
  narrow.v = RoundToBFloat16(v);
  return narrow;
}

std::vector<float> Widen(const std::vector<uint16_t>& values, DType dtype) {
  std::vector<float> wide(values.size());
  data::DecodeToFloat(values.data(), ElementTypeOf(dtype), static_cast<int64_t>(values.size()), wide.data());
  return wide;
}

}  // namespace headscope::analysis
