// SPDX-License-Identifier: Apache-2.0
// Numbers of 16 bits: bf16, the upper half of fp32, and fp16, IEEE's binary16. The one place that rounds to them and
// reads them; what a CPU's or a GPU's own instructions do instead is held to it by tests.
//
// Rounding is to the nearest, ties to even. What is half a step or more above the largest number becomes an infinity,
// and a NaN stays one: it keeps its sign, and is quiet. Reading is exact, and a NaN keeps its sign and payload.
#pragma once

#include <bit>
#include <cstdint>

namespace headscope::kernels {

constexpr float FloatFromBFloat16(uint16_t code) {
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 16);
}

constexpr uint16_t RoundToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // A NaN's payload may lie in the lower half alone; the highest bit of a fraction makes it quiet.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

constexpr float FloatFromFloat16(uint16_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(code & 0x7fffu) << 13;
  // Infinity and NaN: the exponent becomes all ones.
  if (magnitude >= 0x7c00u << 13) return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x007fffffu));
  // Read with binary32's exponent bias, the value is too small by 2^(127 - 15); the product is exact, subnormals
  // included.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f));
}

constexpr uint16_t RoundToFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
  // 65520, half-way between the largest number and what would follow.
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14, binary16's numbers lie 2^-24 apart; adding 0.5, whose neighbours are as far apart, rounds to one.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

}  // namespace headscope::kernels
