// Sets of 32 neighbouring keys, a bit each.
#pragma once

#include <cstdint>

#include "kernels/sparse_index.h"
#include "key_interval.cuh"

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

// Which of 32 keys from `start` on the element rule keeps for the row at `position`.
__device__ inline uint32_t RuledKeys(const ElementRule& rule, int start, int position) {
  const KeyRun run = KeyRun::Make(start, 32, kRunPartial);
  const cuda::KeyInterval kept = cuda::KeptKeys(rule, run, position, true);
  return BitsBelow(kept.end) & (~BitsBelow(kept.begin) | BitsBelow(kept.sinks_end));
}

}  // namespace headscope::kernels::hopper
