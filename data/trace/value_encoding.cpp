// SPDX-License-Identifier: Apache-2.0
#include "trace/value_encoding.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace headscope::data {
namespace {

// bf16 is the upper half of fp32.
uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);  // a payload in the lower half alone is lost
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t ToFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
  if (magnitude >= 0x477ff000)
    return sign | 0x7c00;  // 65520, half-way between the largest number and what would follow
  if (magnitude < 0x38800000) {
    // Below 2^-14, binary16's numbers lie 2^-24 apart; adding 0.5, whose neighbours are as far apart, rounds to one.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000) >> 13);
}

}  // namespace

int64_t EncodeFloats(const float* in, int64_t count, ElementType encoding, void* out) {
  if (encoding == ElementType::kFloat32) {
    if (count > 0) std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
    return -1;
  }
  const bool to_bf16 = encoding == ElementType::kBFloat16;
  const uint16_t infinity = to_bf16 ? 0x7f80 : 0x7c00;
  int64_t first = -1;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t value = to_bf16 ? ToBFloat16(in[i]) : ToFloat16(in[i]);
    if (first < 0 && (value & 0x7fff) == infinity && std::isfinite(in[i])) first = i;
    std::memcpy(static_cast<char*>(out) + 2 * i, &value, sizeof value);
  }
  return first;
}

}  // namespace headscope::data
