// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "data/trace_reader.h"
#include "kernels/narrow_floats.h"

namespace headscope::data {

void DecodeToFloat(const void* in, ElementType encoding, int64_t count, float* out) {
  if (encoding == ElementType::kFloat32) {
    if (count > 0) {
      std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
    }
    return;
  }
  const auto* values = static_cast<const uint16_t*>(in);
  if (encoding == ElementType::kBFloat16) {
    for (int64_t i = 0; i < count; ++i) {
      out[i] = kernels::FloatFromBFloat16(values[i]);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    out[i] = kernels::FloatFromFloat16(values[i]);
  }
}

}  // namespace headscope::data
