// One row of fp32, bf16 or fp16 as fp32 (run-time dispatch; for code outside the per-target files).
#pragma once

#include <cstdint>

#include "kernels/attention_problem.h"

namespace headscope::kernels {

// target[i] = source[element_offset + i] as fp32, i < length; `source` points at elements of `dtype`.
void ConvertRow(const void* source, int64_t element_offset, DType dtype, int64_t length, float* target);

}  // namespace headscope::kernels
