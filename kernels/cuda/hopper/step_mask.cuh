// What a step's rows do not keep of its keys: the scores' mask.
#pragma once

#include <cute/tensor.hpp>

#include "hopper/traits.cuh"
#include "key_interval.cuh"

namespace headscope::kernels::hopper {

struct Segments {
  Segment all[kMaxSegments];
};

// All lanes of a warp call it; lane 0 reads.
template <class T>
__device__ inline Segments ReadSegments(const Step& step) {
  const bool reads = threadIdx.x % 32 == 0;
  Segments segments{};
  if (reads) {
    for (int i = 0; i < T::kSegments; ++i) segments.all[i] = step.segments[i];
  }
  for (int i = 0; i < T::kSegments; ++i) {
    segments.all[i].start = __shfl_sync(kAllLanes, segments.all[i].start, 0);
    segments.all[i].packed = __shfl_sync(kAllLanes, segments.all[i].packed, 0);
  }
  return segments;
}

// Sets to -inf what a row does not keep. `row` is the thread's first row in its item, `position` that row's token
// position.
template <class T, class Scores>
__device__ void MaskScores(Scores& scores, const Step& step, const ElementRule& rule, int row, int position) {
  const Segments segments = ReadSegments<T>(step);
  const int first_column = 2 * (static_cast<int>(threadIdx.x) % 4);
  CUTE_UNROLL
  for (int part = 0; part < T::kSegments; ++part) {
    const Segment segment = segments.all[part];
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      // Both rows of a thread lie in one quarter of the item.
      const bool belongs = segment.BelongsTo(row / 32);
      const KeyRun run =
          KeyRun::Make(segment.start, belongs ? segment.Length() : 0, segment.Partial() ? kRunPartial : 0);
      const cuda::KeyInterval kept = cuda::KeptKeys(rule, run, position + 8 * r, true);
      CUTE_UNROLL
      for (int g = 0; g < kSegmentRows / 8; ++g) {
        CUTE_UNROLL
        for (int c = 0; c < 2; ++c) {
          const int i = (part * (kSegmentRows / 8) + g) * 4 + 2 * r + c;
          if (!kept.Keeps(8 * g + first_column + c)) scores(i) = -INFINITY;
        }
      }
    }
  }
}

}  // namespace headscope::kernels::hopper
