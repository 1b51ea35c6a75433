// SPDX-License-Identifier: Apache-2.0
// Sets of 32 neighbouring keys, a bit each.
#pragma once

#include <cstdint>

#include "kernels/sparse_index.h"

namespace headscope::kernels::hopper {

// Bits 0 to count - 1; none for a negative count, all from 32 on.
__device__ inline uint32_t BitsBelow(int count) {
#ifdef __CUDA_ARCH__
  uint32_t bits;
  asm("bmsk.clamp.b32 %0, 0, %1;" : "=r"(bits) : "r"(max(count, 0)));
  return bits;
#else
  return count >= 32 ? ~0u : (1u << max(count, 0)) - 1u;
#endif
}

// Which of 32 keys from `start` on lie at or before `position`.
__device__ inline uint32_t KeysUpTo(int start, int position) {
  return BitsBelow(position + 1 - start);
}

// Which of 32 keys from `start` on a causal window's first bound and its sinks leave to the row at `position`.
__device__ inline uint32_t WindowKeys(const ElementRule& rule, int start, int position) {
  // Not below 0 in between: a window may be as long as 2^31 - 1.
  const int begin = max(position - rule.window + 1, 0) - start;
  return ~BitsBelow(begin) | BitsBelow(rule.num_sinks - start);
}

}  // namespace headscope::kernels::hopper
