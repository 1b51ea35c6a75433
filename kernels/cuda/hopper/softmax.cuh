// The online softmax of one consumer thread: two rows of a 64-row tile, in base 2.
//
// Accumulator layout of wgmma (64 x N, fp32): element 4 * g + 2 * r + c of a thread is row (lane / 4) + 8 * r of its
// warp's 16 rows and column 8 * g + 2 * (lane % 4) + c. Four neighbouring lanes share a row.
#pragma once

#include <cute/tensor.hpp>

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ inline float QuadSum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

struct SoftmaxState {
  float row_max[2] = {-INFINITY, -INFINITY};  // of scores, unscaled
  float row_sum[2] = {0.0f, 0.0f};            // this thread's share

  // Turns a tile of scores into weights; returns in correction[r] what earlier sums and outputs of row r are multiplied
  // by. kMasked: rows may have kept nothing so far.
  template <bool kMasked, class Scores>
  __device__ void Update(Scores& scores, float scale_log2, float (&correction)[2]) {
    constexpr int kGroups = decltype(cute::size(scores))::value / 4;
    // Rows and neighbouring columns have accumulators of their own: four short chains of dependent instructions instead
    // of one long one.
    float pair_max[4] = {row_max[0], scores(1), row_max[1], scores(3)};
    CUTE_UNROLL
    for (int i = 0; i < 4 * kGroups; ++i) pair_max[i % 4] = fmaxf(pair_max[i % 4], scores(i));
    float shift[2];
    float pair_sum[4];
    for (int r = 0; r < 2; ++r) {
      const float tile_max = QuadMax(fmaxf(pair_max[2 * r], pair_max[2 * r + 1]));
      // Without a kept key the maximum is -inf; 0 in its place makes every weight exp2(-inf) = 0 instead of exp2(-inf -
      // -inf).
      shift[r] = (kMasked && tile_max == -INFINITY ? 0.0f : tile_max) * scale_log2;
      correction[r] = Exp2(fmaf(row_max[r], scale_log2, -shift[r]));
      row_max[r] = tile_max;
      pair_sum[2 * r] = row_sum[r] * correction[r];
      pair_sum[2 * r + 1] = 0.0f;
    }
    CUTE_UNROLL
    for (int i = 0; i < 4 * kGroups; ++i) {
      scores(i) = Exp2(fmaf(scores(i), scale_log2, -shift[i / 2 % 2]));
      pair_sum[i % 4] += scores(i);
    }
    for (int r = 0; r < 2; ++r) row_sum[r] = pair_sum[2 * r] + pair_sum[2 * r + 1];
  }
};

// score = cap * tanh(score_scale * score), to fp32 accuracy: the hardware's tanh is off by 5e-4 of the cap.
template <class Scores>
__device__ void SoftCap(Scores& scores, float score_scale, float cap) {
  constexpr float kTwoLog2E = 2.8853900817779268f;
  CUTE_UNROLL
  for (int i = 0; i < decltype(cute::size(scores))::value; ++i) {
    // tanh(x) = 1 - 2 / (1 + exp(2x)); both ends saturate as they should.
    scores(i) = cap * (1.0f - __fdividef(2.0f, 1.0f + Exp2(scores(i) * score_scale * kTwoLog2E)));
  }
}

}  // namespace headscope::kernels::hopper
