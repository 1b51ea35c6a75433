// SPDX-License-Identifier: Apache-2.0
// Quest's scores of pages, a warp's part of the work.
#pragma once

#include "decode/decode_common.cuh"

namespace headscope::kernels::decode {

// A page's bounds are a row of 2 * D elements, least first; its score is their product with the group's negative and
// positive parts: a lane's eight of these, for elements 8 * part and on.
template <typename T, int D, typename Params>
__device__ __forceinline__ void PageFactors(const Params& p, int sequence, int kv_head, int part, float (&factor)[8]) {
  const T* const q = static_cast<const T*>(p.x.q) + sequence * p.x.q_batch + part % (D / 8) * 8;
  const bool of_largest = part >= D / 8;
  const auto add_part = [&](float& to, float x) { to += of_largest ? fmaxf(x, 0.0f) : fminf(x, 0.0f); };
  float sum[8] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) factor[i] = 0;
#pragma unroll 4
  for (int h = 0; h < p.x.group; ++h) {
    float query[8];
    Unpack(*reinterpret_cast<const uint4*>(q + (kv_head * p.x.group + h) * p.x.q_head), query, T());
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (p.mean_query) {
        sum[i] += query[i];
      } else {
        add_part(factor[i], query[i]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (p.mean_query) add_part(factor[i], sum[i]);  // the sum: a positive factor changes no order
  }
}

// A lane's part of the product.
template <typename T>
__device__ __forceinline__ float PartOfScore(const float (&factor)[8], const uint4& bounds) {
  float bound[8], dot = 0;
  Unpack(bounds, bound, T());
#pragma unroll
  for (int i = 0; i < 8; ++i) dot = fmaf(factor[i], bound[i], dot);
  return dot;
}

// Lanes `kOffset` apart halve the first kCount sums between them; then nearer lanes those that are left. Returns which
// sum a lane ends with.
template <int kCount, int kOffset, int kPages>
__device__ __forceinline__ int HalveSums(float (&dot)[kPages]) {
  if constexpr (kCount == 1) {
    return 0;
  } else {
    constexpr int kHalf = kCount / 2;
    const bool upper = (threadIdx.x & kOffset) != 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float sent = upper ? dot[i] : dot[i + kHalf];
      dot[i] = (upper ? dot[i + kHalf] : dot[i]) + __shfl_xor_sync(kAllLanes, sent, kOffset);
    }
    return (upper ? kHalf : 0) + HalveSums<kHalf, kOffset / 2>(dot);
  }
}

// Sums kPages pages' parts over kLanes neighbouring lanes: lanes halve the pages that they sum until each has one, of
// which it then sums the rest. Leaves in dot[0] the sum of the page whose number is returned, in all lanes that share
// it.
template <int kPages, int kLanes>
__device__ __forceinline__ int SumOfParts(float (&dot)[kPages]) {
  const int mine = HalveSums<kPages, kLanes / 2>(dot);
#pragma unroll
  for (int rest = kLanes / (2 * kPages); rest >= 1; rest /= 2) dot[0] += __shfl_xor_sync(kAllLanes, dot[0], rest);
  return mine;
}

}  // namespace headscope::kernels::decode
