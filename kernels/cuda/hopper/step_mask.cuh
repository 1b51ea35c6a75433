// SPDX-License-Identifier: Apache-2.0
// What a step's rows do not keep of its keys: the scores' mask.
#pragma once

#include <cute/tensor.hpp>

#include "hopper/key_bits.cuh"
#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// Sets to -inf what a row does not keep of T::kSegments segments, the first of which is the step's `first_segment`.
// `row` is the thread's first row in its item, `position` that row's token position. All lanes of a warp call it: lane
// 0 reads the step.
//
// Most items run through this once, at their diagonal, so each jump waits for the instructions behind it: everything of
// the step is asked for at once, and a window is the only branch.
template <class T, class Scores>
__device__ void MaskScores(Scores& scores, const Step& step, uint32_t flags, const ElementRule& rule, int row,
                           int position, int first_segment = 0) {
  const bool reads = threadIdx.x % 32 == 0;
  const int first_column = 2 * (static_cast<int>(threadIdx.x) % 4);
  uint32_t kept[T::kSegments][2];  // of the thread's two rows
  int start[T::kSegments];
  CUTE_UNROLL
  for (int part = 0; part < T::kSegments; ++part) {
    // The rows of a warp lie in one quarter of the item.
    kept[part][0] = reads ? step.kept[row / 32][first_segment + part] : 0u;
    start[part] = reads ? step.start[first_segment + part] : 0;
  }
  CUTE_UNROLL
  for (int part = 0; part < T::kSegments; ++part) {
    kept[part][0] = kept[part][1] = __shfl_sync(kAllLanes, kept[part][0], 0);
    start[part] = __shfl_sync(kAllLanes, start[part], 0);
  }
  if ((flags & kStepRuled) != 0) {
    CUTE_UNROLL
    for (int part = 0; part < T::kSegments; ++part) {
      kept[part][0] &= KeysUpTo(start[part], position);
      kept[part][1] &= KeysUpTo(start[part], position + 8);
    }
    if (rule.kind == MaskKind::kCausalWindow) {
      CUTE_UNROLL
      for (int part = 0; part < T::kSegments; ++part) {
        kept[part][0] &= WindowKeys(rule, start[part], position);
        kept[part][1] &= WindowKeys(rule, start[part], position + 8);
      }
    }
  }
  CUTE_UNROLL
  for (int part = 0; part < T::kSegments; ++part) {
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const uint32_t own = kept[part][r] >> first_column;
      CUTE_UNROLL
      for (int g = 0; g < kSegmentRows / 8; ++g) {
        CUTE_UNROLL
        for (int c = 0; c < 2; ++c) {
          const int i = (part * (kSegmentRows / 8) + g) * 4 + 2 * r + c;
          if ((own & 1u << (8 * g + c)) == 0) scores(i) = -INFINITY;
        }
      }
    }
  }
}

}  // namespace headscope::kernels::hopper
