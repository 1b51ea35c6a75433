// SPDX-License-Identifier: Apache-2.0
// Weights of one tile in e4m3, as the A operand of their product with V.
//
// e4m3 holds weights up to 448 and none below 2^-9. A raised shift (hopper/softmax.cuh) puts a row's largest weight at
// 2^4, so that scores may climb by four powers of two before it is raised again; a weight of 256 or more says that they
// have. What is 2^-14 of the largest weight is lost.
#pragma once

#include "fast_math.cuh"
#include "fp8/fp8_traits.cuh"
#include "hopper/softmax.cuh"

namespace headscope::kernels::fp8 {

// Four weights to e4m3, nearest even, at most 448; the first in the lowest byte.
__device__ inline uint32_t PackWeights(float a, float b, float c, float d) {
  uint32_t packed;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n}"
      : "=r"(packed)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return packed;
}

// The weights of a thread's scores of half a tile. words(4 * t + 2 * h + r) has row r's of keys 32 * t + 16 * h on.
// sums[2 * r + c]: row r's, even and odd keys apart. Returns whether some weight is 256 or more, or NaN.
template <class Scores, class Words>
__device__ bool Weigh(const Scores& scores, const float (&shift)[2], float scale_log2, float (&sums)[4], Words& words) {
  uint32_t large[2] = {};  // two short chains instead of a long one
  CUTE_UNROLL
  for (int word = 0; word < 8; ++word) {
    const int r = word % 2;
    float weight[4];
    CUTE_UNROLL
    for (int j = 0; j < 4; ++j) {
      weight[j] = cuda::Exp2(fmaf(scores(word / 2 * 8 + j / 2 * 4 + 2 * r + j % 2), scale_log2, -shift[r]));
      float& sum = sums[2 * r + j % 2];
      sum = word < 2 && j < 2 ? weight[j] : sum + weight[j];
    }
    words(word) = PackWeights(weight[0], weight[1], weight[2], weight[3]);
    // Bytes are 0x7f at most, NaN, so nothing carries; 0x78 is 256.
    large[r] |= words(word) + 0x08080808u;
  }
  return ((large[0] | large[1]) & 0x80808080u) != 0;
}

// The same from the differences to the rows' largest scores (SoftmaxState::WeighFrom).
template <class Anchor, class Scores, class Words>
__device__ void WeighFrom(const Anchor& anchor, const Scores& scores, float scale_log2, float (&sums)[4],
                          Words& words) {
  using Softmax = hopper::SoftmaxState<cutlass::float_e4m3_t>;
  Softmax::WeighFrom(anchor, scores, scale_log2, sums, [&](int i, float low, float high) {
    // Pairs 2 and 3 of a group of 8 scores stand behind pairs 0 and 1 of the same row.
    const int word = i / 8 * 2 + i / 2 % 2;
    const uint32_t two = PackWeights(low, high, 0.0f, 0.0f);
    words(word) = i % 8 < 4 ? two : words(word) | two << 16;
  });
}

}  // namespace headscope::kernels::fp8
