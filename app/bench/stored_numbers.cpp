// SPDX-License-Identifier: Apache-2.0
#include "bench/stored_numbers.h"

#include <cstdint>
#include <cstring>

#include "base/element_type.h"
#include "data/trace_reader.h"
#include "kernels/narrow_floats.h"

namespace headscope::app::bench {

using kernels::DType;

void StoreNumbers(const std::vector<float>& values, DType dtype, char* out) {
  if (dtype == DType::kFloat32) {
    std::memcpy(out, values.data(), values.size() * sizeof(float));
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t code =
        dtype == DType::kBFloat16 ? kernels::RoundToBFloat16(values[i]) : kernels::RoundToFloat16(values[i]);
    std::memcpy(out + 2 * i, &code, 2);
  }
}

void LoadNumbers(const char* in, DType dtype, std::vector<float>* values) {
  data::DecodeToFloat(in, ElementTypeOf(dtype), static_cast<int64_t>(values->size()), values->data());
}

}  // namespace headscope::app::bench
