// SPDX-License-Identifier: Apache-2.0
// The probe's row statistics: a reference and a sum of exponentials against it, per query row.
#pragma once

#include <cuda_runtime.h>

#include <limits>

#include "select/probe_scores.cuh"

namespace headscope::kernels::selection {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What a thread block knows of its unit's rows.
struct SharedRows {
  float2 rows[kProbeWarps][kUnitRows];  // reference and sum, as in RowStatistics, of each warp
  float row_lse[kUnitRows];             // in base 2
};

// Adds what b stands for, the mass b.y * 2^b.x, to a.
__device__ __forceinline__ void MergeRow(float2& a, float2 b) {
  const float best = fmaxf(a.x, b.x);
  const float shift = best == -kInfinity ? 0.0f : best;
  a.y = a.y * Exp2(a.x - shift) + b.y * Exp2(b.x - shift);
  a.x = best;
}

// Sums of exponentials of the lane's 16 query rows over its keys, each against a reference of its own. The reference is
// a maximum of the row so far, and raised only where scores have outgrown it: any will do that keeps the sum in range.
class RowStatistics {
 public:
  __device__ RowStatistics() {
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) row_[n][e] = {-kInfinity, 0.0f};
    }
  }

  __device__ __forceinline__ void Add(const float (&scores)[kRowGroups][4], float factor) {
    float sums[kRowGroups][2];
    float total = 0;
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        sums[n][e] = SumAgainst(scores, factor, row_[n][e].x, n, e);
        total += sums[n][e];
      }
    }
    // A score is then at most 20 above its reference. Without a reference the sum is infinite or no number.
    constexpr float kMost = 1048576.0f;
    if (!__all_sync(kFullWarp, total < kMost)) {
      AddRaising(scores, factor);
      return;
    }
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) row_[n][e].y += sums[n][e];
    }
  }

  // Leaves the warp's result of all 64 rows. Rows are halved as lanes are merged: a lane ends with rows 2 lane and
  // next.
  __device__ __forceinline__ void Store(float2* rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    MergeHalf<kRowGroups / 2>(16);
    MergeHalf<kRowGroups / 4>(8);
    MergeHalf<kRowGroups / 8>(4);
    *reinterpret_cast<float4*>(rows + 2 * lane) = {row_[0][0].x, row_[0][0].y, row_[0][1].x, row_[0][1].y};
  }

 private:
  // Of row e of group n.
  __device__ __forceinline__ static float SumAgainst(const float (&scores)[kRowGroups][4], float factor,
                                                     float reference, int n, int e) {
    return Exp2(fmaf(scores[n][e], factor, -reference)) + Exp2(fmaf(scores[n][2 + e], factor, -reference));
  }

  __device__ __forceinline__ void AddRaising(const float (&scores)[kRowGroups][4], float factor) {
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float2& row = row_[n][e];
        const float best = fmaxf(row.x, fmaxf(scores[n][e] * factor, scores[n][2 + e] * factor));
        const float shift = best == -kInfinity ? 0.0f : best;  // no key seen yet: -inf - -inf
        row = {best, row.y * Exp2(row.x - shift) + SumAgainst(scores, factor, shift, n, e)};
      }
    }
  }

  // Of 2 * kKept groups, the lane keeps the first or the last half and gives the other to the lane `distance` away.
  template <int kKept>
  __device__ __forceinline__ void MergeHalf(int distance) {
    const bool last = (threadIdx.x & static_cast<unsigned>(distance)) != 0;
#pragma unroll
    for (int n = 0; n < kKept; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float2 kept = last ? row_[n + kKept][e] : row_[n][e];
        const float2 given = last ? row_[n][e] : row_[n + kKept][e];
        MergeRow(kept, {__shfl_xor_sync(kFullWarp, given.x, distance), __shfl_xor_sync(kFullWarp, given.y, distance)});
        row_[n][e] = kept;
      }
    }
  }

  float2 row_[kRowGroups][2];  // reference, sum
};

// The rows' LSE over all strips, in the order of the strips; +inf for a row that the unit does not have, which makes
// all its probabilities 0.
__device__ inline void LoadRowStatistics(const ProbeParams& p, const UnitRows& rows, int64_t unit, SharedRows& shared) {
  static_assert(kProbeThreads == 2 * kUnitRows);
  const int row = static_cast<int>(threadIdx.x) % kUnitRows;
  const int half = static_cast<int>(threadIdx.x) / kUnitRows;
  const int32_t keys_per_strip = p.keys_per_warp * kProbeWarps;
  const int32_t num_strips = (rows.VisibleKeys() + keys_per_strip - 1) / keys_per_strip;
  const float2* const partials = p.row_partials + unit * p.num_strips * kUnitRows + row;
  float2 merged = {-kInfinity, 0.0f};
  constexpr int kAtOnce = 8;  // loads on their way, and exponentials that do not wait for each other
  for (int32_t first = half; first < num_strips; first += 2 * kAtOnce) {
    float2 some[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t strip = first + 2 * i;
      some[i] = strip < num_strips ? partials[int64_t{strip} * kUnitRows] : float2{-kInfinity, 0.0f};
    }
    float best = merged.x;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) best = fmaxf(best, some[i].x);
    const float shift = best == -kInfinity ? 0.0f : best;
    merged = {best, merged.y * Exp2(merged.x - shift)};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) merged.y += some[i].y * Exp2(some[i].x - shift);
  }
  if (half == 1) shared.rows[1][row] = merged;
  __syncthreads();
  if (half == 0) {
    MergeRow(merged, shared.rows[1][row]);
    shared.row_lse[row] = row < rows.num_rows ? merged.x + log2f(merged.y) : kInfinity;
  }
}

}  // namespace headscope::kernels::selection
