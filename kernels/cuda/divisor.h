// SPDX-License-Identifier: Apache-2.0
// Division by what the host knows, for kernels: a product and a shift in place of some 25 instructions that depend on
// each other.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace headscope::kernels {

// n / d is (n * multiplier) >> shift for 0 <= n < 2^31.
struct Divisor {
  uint32_t multiplier;
  int32_t shift;
};

// By `divisor` >= 1. Exact for dividends below 2^31: the multiplier exceeds 2^shift / divisor by less than
// 2^(shift - 31) / divisor.
inline Divisor DivideBy(int32_t divisor) {
  int32_t shift = 31;
  while (int64_t{1} << (shift - 31) < divisor) ++shift;
  const uint64_t by = static_cast<uint64_t>(divisor);
  return {static_cast<uint32_t>(((uint64_t{1} << shift) + by - 1) / by), shift};
}

// n / d for 0 <= n < 2^31.
__host__ __device__ inline int Quotient(int n, const Divisor& by) {
  return static_cast<int>(static_cast<uint64_t>(static_cast<uint32_t>(n)) * by.multiplier >> by.shift);
}

}  // namespace headscope::kernels
