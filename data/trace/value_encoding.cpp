// SPDX-License-Identifier: Apache-2.0
#include "trace/value_encoding.h"

#include <cmath>
#include <cstring>

#include "kernels/narrow_floats.h"

namespace headscope::data {

int64_t EncodeFloats(const float* in, int64_t count, ElementType encoding, void* out) {
  if (encoding == ElementType::kFloat32) {
    if (count > 0) std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
    return -1;
  }
  const bool to_bf16 = encoding == ElementType::kBFloat16;
  const uint16_t infinity = to_bf16 ? 0x7f80 : 0x7c00;
  int64_t first = -1;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t value = to_bf16 ? kernels::RoundToBFloat16(in[i]) : kernels::RoundToFloat16(in[i]);
    if (first < 0 && (value & 0x7fff) == infinity && std::isfinite(in[i])) first = i;
    std::memcpy(static_cast<char*>(out) + 2 * i, &value, sizeof value);
  }
  return first;
}

}  // namespace headscope::data
