// SPDX-License-Identifier: Apache-2.0
// bf16 is the upper half of fp32.
#pragma once

#include <bit>
#include <cstdint>

namespace headscope::kernels {

inline float FloatFromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// To nearest, ties to even. Finite input: a NaN may become an infinity.
inline uint16_t RoundToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace headscope::kernels
