// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstring>

#include "data/trace_reader.h"

namespace headscope::data {
namespace {

// IEEE binary16 to binary32, exact for every value; NaN keeps its sign and payload.
float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fffu) << 13;
  if (magnitude >= 0x7c00u << 13) {  // infinity and NaN: the exponent becomes all ones
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x007fffffu));
  }
  // Read with binary32's exponent bias, the value is too small by 2^(127 - 15); the product is exact, subnormals
  // included.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f));
}

}  // namespace

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
      out[i] = std::bit_cast<float>(static_cast<uint32_t>(values[i]) << 16);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    out[i] = HalfToFloat(values[i]);
  }
}

}  // namespace headscope::data
