// The online softmax of one consumer thread: two rows of a 64-row tile, in base 2.
//
// Accumulator layout of wgmma (64 x N, fp32): element 4 * g + 2 * r + c of a thread is row (lane / 4) + 8 * r of its
// warp's 16 rows and column 8 * g + 2 * (lane % 4) + c. Four neighbouring lanes share a row.
#pragma once

#include <cute/tensor.hpp>

#include "fast_math.cuh"
#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

using cuda::Exp2;

__device__ inline float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ inline float QuadSum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

// A row's *shift* is what is subtracted from its exponents. It need not be the row's largest score: numerator,
// denominator and LSE use the same one, so the result does not depend on it while no weight overflows and none that
// counts underflows. So a row gets its first tile's largest score as its shift and keeps it until the weights under it
// grow large, which their sums tell, and these are needed anyway: nearly every tile does without maxima, exchanges
// between lanes and a rescaling of O.
struct SoftmaxState {
  // The shift is raised when a thread's weights of one row and tile add up to this; fp16 holds weights up to 2^16.
  static constexpr float kLargestSum = 4096.0f;
  // The shift of a row that has kept nothing so far: under it any score's weight is infinite, and that of -inf is 0.
  static constexpr float kNothing = -3e38f;

  float shift[2] = {kNothing, kNothing};  // of both rows, scaled: exponents of two
  float row_sum[2] = {0.0f, 0.0f};        // this thread's share

  // The weights of scores kBegin to kEnd of a tile: take(i, low, high) gets those of i and i + 1. They are added up in
  // sums[2 * r + c], c for even and odd columns, which starts with kBegin = 0.
  template <int kBegin, int kEnd, class Scores, class Take>
  __device__ void Weigh(const Scores& scores, float scale_log2, float (&sums)[4], Take take) const {
    CUTE_UNROLL
    for (int i = kBegin; i < kEnd; i += 2) {
      const float row_shift = shift[i / 2 % 2];
      const float low = Exp2(fmaf(scores(i), scale_log2, -row_shift));
      const float high = Exp2(fmaf(scores(i + 1), scale_log2, -row_shift));
      sums[i % 4] = i < 4 ? low : sums[i % 4] + low;
      sums[i % 4 + 1] = i < 4 ? high : sums[i % 4 + 1] + high;
      take(i, low, high);
    }
  }

  // Whether the weights of a tile may stand; the same for all lanes of a warp.
  __device__ static bool Fits(const float (&sums)[4]) {
    return __all_sync(kAllLanes, fmaxf(sums[0] + sums[1], sums[2] + sums[3]) < kLargestSum);
  }

  // Raises the shifts to the largest scores so far; correction[r] is what outputs of row r so far are multiplied by.
  template <class Scores>
  __device__ void Raise(const Scores& scores, float scale_log2, float (&correction)[2]) {
    // Rows and neighbouring columns have accumulators of their own: four short chains of dependent instructions instead
    // of one long one.
    float pair_max[4] = {scores(0), scores(1), scores(2), scores(3)};
    CUTE_UNROLL
    for (int i = 4; i < decltype(cute::size(scores))::value; ++i) pair_max[i % 4] = fmaxf(pair_max[i % 4], scores(i));
    for (int r = 0; r < 2; ++r) {
      const float raised = fmaxf(shift[r], QuadMax(fmaxf(pair_max[2 * r], pair_max[2 * r + 1])) * scale_log2);
      correction[r] = Exp2(shift[r] - raised);
      shift[r] = raised;
      row_sum[r] *= correction[r];
    }
  }

  __device__ void Add(const float (&sums)[4]) {
    for (int r = 0; r < 2; ++r) row_sum[r] += sums[2 * r] + sums[2 * r + 1];
  }
};

// score = cap * tanh(score_scale * score).
template <class Scores>
__device__ void SoftCap(Scores& scores, float score_scale, float cap) {
  CUTE_UNROLL
  for (int i = 0; i < decltype(cute::size(scores))::value; ++i) {
    scores(i) = cap * cuda::Tanh(scores(i) * score_scale);
  }
}

}  // namespace headscope::kernels::hopper
