// SPDX-License-Identifier: Apache-2.0
// Reading one stored element as fp32, whatever the storage type.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/attention_problem.h"
#include "kernels/bfloat16.h"

namespace headscope::kernels::internal {

// IEEE binary16, with subnormals, infinities and NaN.
inline float FloatFromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide_exponent = exponent == 0x1fu ? 0xffu : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide_exponent << 23 | mantissa << 13);
}

// Element `offset` of `data`.
inline float LoadElement(const void* data, DType dtype, int64_t offset) {
  if (dtype == DType::kFloat32) return static_cast<const float*>(data)[offset];
  const uint16_t bits = static_cast<const uint16_t*>(data)[offset];
  return dtype == DType::kBFloat16 ? FloatFromBFloat16(bits) : FloatFromFloat16(bits);
}

// `count` contiguous elements from `offset` on, to fp32.
inline void LoadRow(const void* data, DType dtype, int64_t offset, int32_t count, float* row) {
  if (dtype == DType::kFloat32) {
    std::memcpy(row, static_cast<const float*>(data) + offset, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int32_t i = 0; i < count; ++i) row[i] = LoadElement(data, dtype, offset + i);
}

}  // namespace headscope::kernels::internal
