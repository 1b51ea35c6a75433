// SPDX-License-Identifier: Apache-2.0
// The online softmax of one consumer thread: two rows of a 64-row tile, in base 2.
//
// Accumulator layout of wgmma (64 x N, fp32): element 4 * g + 2 * r + c of a thread is row (lane / 4) + 8 * r of its
// warp's 16 rows and column 8 * g + 2 * (lane % 4) + c. Four neighbouring lanes share a row.
#pragma once

#include <cutlass/bfloat16.h>

#include <cute/tensor.hpp>
#include <type_traits>

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

// Both rounded to Element, `low` in the lower half.
template <class Element>
__device__ inline uint32_t RoundedPair(float low, float high) {
  if constexpr (std::is_same_v<Element, cutlass::bfloat16_t>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  }
}

// A row's *shift* is what is subtracted from its exponents. It need not be the row's largest score: numerator,
// denominator and LSE use the same one, so the result does not depend on it while no weight overflows and none that
// counts underflows. So a row gets its first tile's largest score, or more, as its shift and keeps it until the weights
// under it grow large, which their sums tell, and these are needed anyway: nearly every tile does without maxima,
// exchanges between lanes and a rescaling of O.
//
// How far scores may climb before that happens is a matter of the weights' type. bf16 has the exponents of fp32, so its
// rows may climb by 100 powers of two, 69 nats: from 2^-50, where a raised shift puts the largest weight, to 2^50. What
// is 2^-76 of the largest weight is lost, which is far below what fp32 adds up, and products with V overflow only where
// V passes 2^60. fp16 holds weights up to 2^16 and none below 2^-24, so there is no room below.
//
// A row's largest weight is exact where the shift was raised to it; else it is rounded to 8 bits like all others, which
// shows where one key has most of the mass. That is mostly the first of a prompt, which comes first (run_walker.cuh).
template <class Element>
struct SoftmaxState {
  static constexpr bool kWide = std::is_same_v<Element, cutlass::bfloat16_t>;
  static constexpr bool kByte = sizeof(Element) == 1;  // e4m3 (fp8/fp8_softmax.cuh)
  // The shift is raised when a thread's weights of one row and tile add up to this.
  static constexpr float kLargestExponent = kWide ? 50.0f : kByte ? 7.0f : 12.0f;
  static constexpr float kLargestSum = kWide ? 0x1p50f : 0x1p12f;
  // How far above the largest score so far a raised shift lies, in powers of two.
  static constexpr float kHeadroom = kWide ? 50.0f : kByte ? -4.0f : 0.0f;
  // Up to here a shift's last bit is worth 4 at most, which all weights can do with.
  static constexpr float kEnormousShift = 0x1p26f;
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
      Count(i, low, high, sums);
      take(i, low, high);
    }
  }

  __device__ static void Count(int i, float low, float high, float (&sums)[4]) {
    sums[i % 4] = i < 4 ? low : sums[i % 4] + low;
    sums[i % 4 + 1] = i < 4 ? high : sums[i % 4 + 1] + high;
  }

  // Whether the weights of a tile may stand; the same for all lanes of a warp.
  __device__ static bool Fits(const float (&sums)[4]) {
    return __all_sync(kAllLanes, fmaxf(sums[0] + sums[1], sums[2] + sums[3]) < kLargestSum);
  }

  // Where the weights of a tile that raised the shifts are counted from.
  struct Anchor {
    float score[2];   // the rows' largest scores in this tile, 0 where nothing is kept
    float weight[2];  // their weights' exponents of two
  };

  // Raises the shifts to hold the largest scores so far; correction[r] is what outputs of row r so far are multiplied
  // by.
  template <class Scores>
  __device__ Anchor Raise(const Scores& scores, float scale_log2, float (&correction)[2]) {
    // Rows and neighbouring columns have accumulators of their own: four short chains of dependent instructions instead
    // of one long one.
    float pair_max[4] = {scores(0), scores(1), scores(2), scores(3)};
    CUTE_UNROLL
    for (int i = 4; i < decltype(cute::size(scores))::value; ++i) pair_max[i % 4] = fmaxf(pair_max[i % 4], scores(i));
    Anchor anchor;
    for (int r = 0; r < 2; ++r) {
      const float largest = QuadMax(fmaxf(pair_max[2 * r], pair_max[2 * r + 1]));
      // Rounded down, so that a later score equal to the largest never gets less than its weight. Where the product's
      // last bit is worth more than the weights' range, from some 1e9 on, it gets too much, and so comes here as well.
      const float raised = fmaxf(shift[r], __fmul_rd(largest, scale_log2) + kHeadroom);
      correction[r] = Exp2(shift[r] - raised);
      shift[r] = raised;
      row_sum[r] *= correction[r];
      anchor.score[r] = largest == -INFINITY ? 0.0f : largest;
      anchor.weight[r] = fminf(fmaf(anchor.score[r], scale_log2, -raised), kLargestExponent);
    }
    return anchor;
  }

  // Whether some row of the warp wants WeighFrom; the same for all lanes.
  __device__ bool IsEnormous() const {
    const auto enormous = [&](int r) { return fabsf(shift[r]) >= kEnormousShift && shift[r] != kNothing; };
    return __any_sync(kAllLanes, enormous(0) || enormous(1)) != 0;
  }

  // The weights of all scores of a tile, from the differences to the largest ones: exact however large the scores are,
  // for an addition a score more than Weigh. `take` and `sums` as there.
  template <class Scores, class Take>
  __device__ static void WeighFrom(const Anchor& anchor, const Scores& scores, float scale_log2, float (&sums)[4],
                                   Take take) {
    CUTE_UNROLL
    for (int i = 0; i < decltype(cute::size(scores))::value; i += 2) {
      const int r = i / 2 % 2;
      const float low = Exp2(fmaf(scores(i) - anchor.score[r], scale_log2, anchor.weight[r]));
      const float high = Exp2(fmaf(scores(i + 1) - anchor.score[r], scale_log2, anchor.weight[r]));
      Count(i, low, high, sums);
      take(i, low, high);
    }
  }

  __device__ void Add(const float (&sums)[4]) {
    for (int r = 0; r < 2; ++r) row_sum[r] += sums[2 * r] + sums[2 * r + 1];
  }
};

// One more term of a row's sum under its shift: the sink's, which has no value. A sink above the shift becomes it, so
// that no term overflows; what the row's weights and outputs are multiplied by is then *factor.
__device__ inline void AddSink(float logit, float* sum, float* shift, float* factor) {
  const float sink = logit * 1.44269504088896341f, raised = fmaxf(*shift, sink);
  *factor = Exp2(*shift - raised);
  *sum = fmaf(*sum, *factor, Exp2(sink - raised));
  *shift = raised;
}

// score = cap * tanh(score_scale * score).
template <class Scores>
__device__ void SoftCap(Scores& scores, float score_scale, float cap) {
  CUTE_UNROLL
  for (int i = 0; i < decltype(cute::size(scores))::value; ++i) {
    scores(i) = cap * cuda::Tanh(scores(i) * score_scale);
  }
}

}  // namespace headscope::kernels::hopper
