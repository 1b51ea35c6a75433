// SPDX-License-Identifier: Apache-2.0
// The warp that makes the mean of one block of 64 rows, as terms of products. See pooled_blocks.h.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "select/pooled_blocks.h"

namespace headscope::kernels::selection {

constexpr int kPoolAhead = 16;  // loads of a lane in flight

// One head's rows, and where their means go.
struct PooledHead {
  const uint16_t* rows;
  int64_t row_stride;
  int32_t num_rows;
  int32_t head_dim;
  bool is_bf16;
  uint4* terms;
  float* factors;  // null where nobody asks for them
};

template <bool kBf16>
__device__ __forceinline__ void AddEight(const uint4& raw, float (&sums)[8]) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = kBf16 ? float2{__uint_as_float(words[i] << 16), __uint_as_float(words[i] & 0xffff0000u)}
                              : __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
    sums[2 * i] += pair.x;
    sums[2 * i + 1] += pair.y;
  }
}

// Adds eight components of every rows_at_once-th of rows [first, num_rows).
template <bool kBf16>
__device__ __forceinline__ void AddRows(const uint16_t* from, int64_t row_stride, int first, int rows_at_once,
                                        int num_rows, float (&sums)[8]) {
  for (; first < kPoolRows; first += kPoolAhead * rows_at_once) {
    uint4 raw[kPoolAhead];
#pragma unroll
    for (int i = 0; i < kPoolAhead; ++i) {
      const int row = first + i * rows_at_once;
      raw[i] = row < num_rows ? __ldcs(reinterpret_cast<const uint4*>(from + row * row_stride)) : uint4{};
    }
#pragma unroll
    for (int i = 0; i < kPoolAhead; ++i) AddEight<kBf16>(raw[i], sums);
  }
}

// Eight components of a mean, scaled, as high and low terms.
__device__ __forceinline__ void Split(const float (&mean)[8], float scale, uint4* high, uint4* low) {
  uint32_t highs[4];
  uint32_t lows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = {mean[2 * i] * scale, mean[2 * i + 1] * scale};
    const __half2 rounded = __float22half2_rn(pair);
    const float2 taken = __half22float2(rounded);
    const __half2 left = __float22half2_rn({pair.x - taken.x, pair.y - taken.y});
    highs[i] = *reinterpret_cast<const uint32_t*>(&rounded);
    lows[i] = *reinterpret_cast<const uint32_t*>(&left);
  }
  *high = {highs[0], highs[1], highs[2], highs[3]};
  *low = {lows[0], lows[1], lows[2], lows[3]};
}

// Neighbouring lanes take neighbouring 16 bytes of a row, and as many rows as that leaves lanes for go at once. A
// ragged last block is the mean of its valid rows. All lanes call it.
__device__ inline void PoolBlock(const PooledHead& tensor, int32_t block) {
  constexpr unsigned kAllLanes = 0xffffffffu;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pieces = tensor.head_dim / 8;
  const int rows_at_once = 32 / pieces;
  const int piece = lane % pieces;
  const int lane_row = lane / pieces;
  const uint16_t* const from = tensor.rows + int64_t{block} * kPoolRows * tensor.row_stride + piece * 8;
  const int num_rows = min(kPoolRows, tensor.num_rows - block * kPoolRows);
  float sums[8] = {};
  const int last_row = lane_row < rows_at_once ? num_rows : 0;  // a head_dim of 96 leaves 8 lanes over
  if (tensor.is_bf16) {
    AddRows<true>(from, tensor.row_stride, lane_row, rows_at_once, last_row, sums);
  } else {
    AddRows<false>(from, tensor.row_stride, lane_row, rows_at_once, last_row, sums);
  }
  float totals[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) totals[i] = sums[i];
  for (int row = 1; row < rows_at_once; ++row) {
#pragma unroll
    for (int i = 0; i < 8; ++i) totals[i] += __shfl_down_sync(kAllLanes, sums[i], static_cast<unsigned>(row * pieces));
  }
  float mean[8];
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    mean[i] = totals[i] / static_cast<float>(num_rows);
    if (lane < pieces) largest = fmaxf(largest, fabsf(mean[i]));
  }
  // Numbers that are not negative are ordered as their bits. The scale is 2^127 at most.
  const uint32_t bits = __reduce_max_sync(kAllLanes, __float_as_uint(largest));
  const uint32_t exponent = max(bits >> 23, 14u);
  const float scale = __uint_as_float((268u - exponent) << 23);
  if (lane < pieces) {
    uint4* const to = tensor.terms + int64_t{block / kTermGroup} * GroupPieces(tensor.head_dim) +
                      piece / 4 * kStepPieces + block % kTermGroup * 4 + piece % 4;
    Split(mean, scale, to, to + kStepPieces / 2);
  }
  if (tensor.factors != nullptr && lane == 0) tensor.factors[block] = exponent == 255 ? 0.0f : 1.0f / scale;
}

}  // namespace headscope::kernels::selection
