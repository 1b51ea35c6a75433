// SPDX-License-Identifier: Apache-2.0
// A tile of probabilities (or their logarithms) in shared memory, for statistics that add up columns or diagonals.
#pragma once

#include "statistics/score_tile.cuh"

namespace headscope::kernels::statistics {

// Floats per row: with 8 more than the 64 keys, the eight-byte stores of a half-warp meet all banks once, and so do
// reads along a row or along diagonals.
inline constexpr int kProbabilityPitch = kTileKeys + 8;
inline constexpr int64_t kProbabilityBytes = int64_t{kTileRows} * kProbabilityPitch * 4;

// value(score - lse) of every pair of the tile, in base 2.
template <typename Value>
__device__ __forceinline__ void StoreTile(const ScoreFragment& scores, const RowLseValues& lse, float* tile,
                                          Value&& value) {
#pragma unroll
  for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* const row = tile + RowOf(mt, half) * kProbabilityPitch;
#pragma unroll
      for (int nt = 0; nt < 8; ++nt) {
        *reinterpret_cast<float2*>(row + KeyOf(nt, 0)) =
            make_float2(value(scores.value[mt][nt][half * 2] - lse.value[mt][half]),
                        value(scores.value[mt][nt][half * 2 + 1] - lse.value[mt][half]));
      }
    }
  }
}
__device__ __forceinline__ void StoreProbabilities(const ScoreFragment& scores, const RowLseValues& lse, float* tile) {
  StoreTile(scores, lse, tile, [](float x) { return Exp2(x); });
}

}  // namespace headscope::kernels::statistics
