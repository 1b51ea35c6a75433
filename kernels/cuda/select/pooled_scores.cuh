// SPDX-License-Identifier: Apache-2.0
// The scores of pooled blocks. See pooled_blocks.h.
//
// A product of two means is high * high + high * low + low * high of their terms, which leaves out less than 2^-21 of
// the product of two components. What is read here was written by the same launch: all of it comes from L2 (__ldcg).
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "mma.cuh"
#include "select/pooled_blocks.h"
#include "select/row_pick.cuh"

namespace headscope::kernels::selection {

constexpr int kPickThreads = 512;
constexpr int kPickWarps = kPickThreads / 32;
constexpr int kTileQueries = 16;  // rows of one product
constexpr int kMostTiles = 3;     // of a thread block
constexpr int kFewestQueries = kTermGroup;
constexpr int kTurnGroups = 2;  // groups of 8 keys that a warp scores at once
constexpr int kWarpKeys = kTermGroup * kTurnGroups;
constexpr int kTurnKeys = kWarpKeys * kPickWarps;
constexpr int kPitchPad = 8;  // eight rows' stores of neighbouring scores meet all 32 banks

// Rows of scores in shared memory are this long, in fp16 numbers.
__host__ __device__ constexpr int32_t ScorePitch(int32_t num_key_blocks) {
  return (num_key_blocks + kWarpScores - 1) / kWarpScores * kWarpScores + kPitchPad;
}

// Query blocks of a thread block's operands: whole tiles.
__host__ __device__ constexpr int32_t OperandPieces(int32_t num_rows, int32_t head_dim) {
  return (num_rows + kTileQueries - 1) / kTileQueries * (kTileQueries / kTermGroup) * GroupPieces(head_dim);
}

// The terms of a step of 8 key blocks, a lane's part.
struct Terms {
  uint4 high;
  uint4 low;
};

// The query blocks' operands as the products read them: per tile, step and half of a step the high terms of 16
// components, then the low ones; of each, a lane holds query block lane / 4 in x and z and lane / 4 + 8 in y and w.
// Which component a product takes for which of its places is free as long as both operands agree: 16 bytes of a lane
// feed two products.
__device__ inline void LoadQueries(const uint4* q_terms, int32_t num_queries, int32_t num_pieces, int32_t head_dim,
                                   uint4* operands) {
  const int32_t group_pieces = GroupPieces(head_dim);
  const int32_t num_groups = TermGroups(num_queries);
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < num_pieces / 2; i += kPickThreads) {
    const int32_t tile = i / group_pieces;
    const uint4* const from = q_terms + 2 * tile * group_pieces + i % group_pieces;
    const uint4 rows0 = 2 * tile < num_groups ? __ldcg(from) : uint4{};
    const uint4 rows8 = 2 * tile + 1 < num_groups ? __ldcg(from + group_pieces) : uint4{};
    // Piece i is (tile, step, term, lane).
    uint4* const to = operands + i / kStepPieces * 2 * kStepPieces + i % kStepPieces;
    to[0] = {rows0.x, rows8.x, rows0.y, rows8.y};
    to[kStepPieces] = {rows0.z, rows8.z, rows0.w, rows8.w};
  }
}

// A tile of 16 query blocks by the turn's groups of keys, 32 components.
__device__ __forceinline__ void MultiplyStep(float (&c)[kTurnGroups][4], const uint4* queries,
                                             const Terms (&keys)[kTurnGroups]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 high = queries[half * kStepPieces];
    const uint4 low = queries[half * kStepPieces + kStepPieces / 2];
    auto multiply = [&](const uint4& q, auto&& term_of) {
#pragma unroll
      for (int g = 0; g < kTurnGroups; ++g) {
        const uint4& k = term_of(keys[g]);
        cuda::Mma</*kBFloat16=*/false>(c[g], {q.x, q.y, q.z, q.w}, half == 0 ? k.x : k.z, half == 0 ? k.y : k.w);
      }
    };
    multiply(low, [](const Terms& terms) -> const uint4& { return terms.high; });
    multiply(high, [](const Terms& terms) -> const uint4& { return terms.low; });
    multiply(high, [](const Terms& terms) -> const uint4& { return terms.high; });
  }
}

// Scores of the num_rows query blocks in `operands` with key blocks [0, num_keys), times a number of the row's own and
// `norm`, into scores[query * pitch + key]; no number becomes -infinity. Keys up to the next multiple of 16 are written
// too, and nobody looks at those.
__device__ inline void ScoreKeys(const uint4* k_terms, const float* k_factors, const uint4* operands, int32_t num_keys,
                                 int32_t head_dim, int num_rows, float norm, int32_t pitch, __half* scores) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int num_tiles = (num_rows + kTileQueries - 1) / kTileQueries;
  const int num_steps = head_dim / kStepComponents;
  const int group_pieces = GroupPieces(head_dim);
  const int32_t last_group = TermGroups(num_keys) - 1;
  const uint4* from[kTurnGroups];
  auto point_at = [&](int32_t first) {
#pragma unroll
    for (int g = 0; g < kTurnGroups; ++g) {
      from[g] = k_terms + int64_t{min(first / kTermGroup + g, last_group)} * group_pieces + lane;
    }
  };
  Terms next[kTurnGroups];
  auto load = [&] {
#pragma unroll
    for (int g = 0; g < kTurnGroups; ++g) next[g] = {__ldcg(from[g]), __ldcg(from[g] + kStepPieces / 2)};
  };
  int32_t first = warp * kWarpKeys;
  if (first >= num_keys) return;
  point_at(first);
  load();
  for (; first < num_keys; first += kTurnKeys) {
    float c[kMostTiles][kTurnGroups][4] = {};
    float2 factors[kTurnGroups];
#pragma unroll
    for (int g = 0; g < kTurnGroups; ++g) {
      const int32_t group = min(first / kTermGroup + g, last_group);
      factors[g] = __ldcg(reinterpret_cast<const float2*>(k_factors + group * kTermGroup) + lane % 4);
    }
    const uint4* queries = operands + lane;
#pragma unroll 1
    for (int step = 0; step < num_steps; ++step) {
      Terms keys[kTurnGroups];
#pragma unroll
      for (int g = 0; g < kTurnGroups; ++g) {
        keys[g] = next[g];
        from[g] += kStepPieces;
      }
      if (step + 1 == num_steps) point_at(first + kTurnKeys);
      load();
#pragma unroll
      for (int tile = 0; tile < kMostTiles; ++tile) {
        if (tile < num_tiles) MultiplyStep(c[tile], queries + tile * 2 * group_pieces, keys);
      }
      queries += 2 * kStepPieces;
    }
    const __half2 lowest = __float2half2_rn(-__int_as_float(0x7f800000));
#pragma unroll
    for (int g = 0; g < kTurnGroups; ++g) {
      const float2 factor = {factors[g].x * norm, factors[g].y * norm};
#pragma unroll
      for (int tile = 0; tile < kMostTiles; ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int query = tile * kTileQueries + half * 8 + lane / 4;
          if (query >= num_rows) continue;
          const __half2 pair = __floats2half2_rn(c[tile][g][2 * half] * factor.x, c[tile][g][2 * half + 1] * factor.y);
          *reinterpret_cast<__half2*>(scores + query * pitch + first + kTermGroup * g + lane % 4 * 2) =
              __hmax2(pair, lowest);
        }
      }
    }
  }
}

// One score in fp32, by a whole warp.
struct PairScore {
  const uint4* q_terms;  // at the query block's first components
  const uint4* k_terms;
  const float* k_factors;
  int32_t head_dim;
  float norm;

  __device__ static float Dot(const uint4& q_high, const uint4& q_low, const uint4& k_high, const uint4& k_low) {
    auto add = [](uint32_t high, uint32_t low) {
      const float2 a = __half22float2(AsHalves(high));
      const float2 b = __half22float2(AsHalves(low));
      return float2{a.x + b.x, a.y + b.y};
    };
    const uint32_t q[2][4] = {{q_high.x, q_high.y, q_high.z, q_high.w}, {q_low.x, q_low.y, q_low.z, q_low.w}};
    const uint32_t k[2][4] = {{k_high.x, k_high.y, k_high.z, k_high.w}, {k_low.x, k_low.y, k_low.z, k_low.w}};
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 a = add(q[0][i], q[1][i]);
      const float2 b = add(k[0][i], k[1][i]);
      sum = fmaf(a.x, b.x, fmaf(a.y, b.y, sum));
    }
    return sum;
  }

  __device__ float operator()(int32_t key) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float sum = 0;
    if (lane < head_dim / 8) {
      const int at = lane / 4 * kStepPieces + lane % 4;
      const uint4* const q = q_terms + at;
      const uint4* const k = k_terms + int64_t{key / kTermGroup} * GroupPieces(head_dim) + key % kTermGroup * 4 + at;
      sum = Dot(__ldcg(q), __ldcg(q + kStepPieces / 2), __ldcg(k), __ldcg(k + kStepPieces / 2));
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
    // NaN becomes -infinity.
    return fmaxf(sum * (__ldcg(k_factors + key) * norm), -__int_as_float(0x7f800000));
  }
};

}  // namespace headscope::kernels::selection
