// SPDX-License-Identifier: Apache-2.0
// 64 bits of a bitmap from any bit on.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace headscope::kernels::selection {

// The 64 bits that start with bit `shift`, 0 .. 63, of `low` and go on in `high`.
__device__ inline uint64_t FunnelShift(uint64_t low, uint64_t high, int shift) {
  return shift == 0 ? low : low >> shift | high << (64 - shift);
}

}  // namespace headscope::kernels::selection
