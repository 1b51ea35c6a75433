// SPDX-License-Identifier: Apache-2.0
// bf16 and fp16 as 16-bit codes, in scalar code that shares nothing with the kernels' vector conversions.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention_problem.h"

namespace headscope::kernels::test {

// To the nearest, ties to even.
inline uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float FromBFloat16(uint16_t code) {
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 16);
}

// To the nearest, ties to even, for |value| < 65504, as random test data is; NaN and infinity keep their meaning.
inline uint16_t ToFloat16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000u : 0u;
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return 0x7e00;
  if (magnitude > 65504.0f) return static_cast<uint16_t>(sign | 0x7c00u);
  const int exponent = std::max(magnitude == 0.0f ? -14 : std::ilogb(magnitude), -14);
  const int mantissa = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));  // 0 .. 2048
  // A subnormal has mantissa < 1024 and exponent field 0; a mantissa of 2048 carries into the exponent by itself.
  return static_cast<uint16_t>(sign | static_cast<uint16_t>(((exponent + 14) << 10) + mantissa));
}
// From a table: oracles decode the same tensors again for every head and row.
inline float FromFloat16(uint16_t code) {
  static const std::vector<float> values = [] {
    std::vector<float> all;
    all.reserve(0x10000);
    for (int bits = 0; bits < 0x10000; ++bits) {
      const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
      const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
      const float special =
          mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
      all.push_back(exponent == 31  ? special
                    : exponent == 0 ? sign * std::ldexp(static_cast<float>(mantissa), -24)
                                    : sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25));
    }
    return all;
  }();
  return values[code];
}

// Of a 16-bit type.
inline uint16_t ToCode(float value, DType dtype) {
  return dtype == DType::kBFloat16 ? ToBFloat16(value) : ToFloat16(value);
}
inline float FromCode(uint16_t code, DType dtype) {
  return dtype == DType::kBFloat16 ? FromBFloat16(code) : FromFloat16(code);
}

}  // namespace headscope::kernels::test
