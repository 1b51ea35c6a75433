// SPDX-License-Identifier: Apache-2.0
// Reading one stored element as fp32, whatever the storage type.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/attention_problem.h"
#include "kernels/narrow_floats.h"

namespace headscope::kernels::internal {

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
  const uint16_t* const bits = static_cast<const uint16_t*>(data) + offset;
  if (dtype == DType::kBFloat16) {  // a loop of its own, which the compiler makes vectors of
    for (int32_t i = 0; i < count; ++i) row[i] = FloatFromBFloat16(bits[i]);
    return;
  }
  for (int32_t i = 0; i < count; ++i) row[i] = FloatFromFloat16(bits[i]);
}

}  // namespace headscope::kernels::internal
