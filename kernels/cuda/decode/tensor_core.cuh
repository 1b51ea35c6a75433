// SPDX-License-Identifier: Apache-2.0
// One warp's products of decode on the tensor cores (mma.m16n8k16), 16 tokens a step.
//
// Scores: S[head, token] = Q K^T with the group's heads as the 16 rows (8 used) and 8 tokens as columns. Thread (i =
// lane / 4, j = lane % 4) holds of K's fragment token i and, per step of 16 components, four of them. Which components
// a step multiplies is free as long as Q agrees, so a thread takes 16 contiguous bytes and spreads them over two steps.
// The result's fragment gives thread (i, j) head i, tokens 2j and 2j + 1. Output: O^T[component, head] = V^T P^T with
// 16 components as rows and 16 tokens as depth. P^T's fragment wants of thread (i, j) head i, tokens 2j and 2j + 1:
// just what it has. V^T's wants token pairs of one component in one register: ldmatrix transposes. Heads of a group: at
// most 8. Products in fp32, probabilities rounded to the element type, as FlashAttention does.
#pragma once

#include <type_traits>

#include "decode/decode_common.cuh"
#include "mma.cuh"
#include "shared_memory.cuh"

namespace headscope::kernels::decode {

using cuda::LoadMatricesTransposed;
using cuda::SharedAddress;

// c += a b, of 16 components.
template <typename T>
__device__ __forceinline__ void Mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1, T) {
  cuda::Mma<std::is_same_v<T, __nv_bfloat16>>(c, {a0, a1, a2, a3}, b0, b1);
}
// The same of 8 components, m16n8k8.
__device__ __forceinline__ void MmaOfEight(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0, __nv_bfloat16) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(b0));
}
__device__ __forceinline__ void MmaOfEight(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0, __half) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(b0));
}
__device__ __forceinline__ uint32_t Pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ uint32_t Pack(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Q as the A operand: rows 8 .. 15 are zero, so two registers a step. Components block * 32 + j * 8 + 0 .. 7 belong to
// thread j: the first four to step 2 * block, the others to the next. A query is called with the number of a block.
//
// This one stays in registers, for warps that take many tiles.
template <typename T, int D>
struct QueryFragment {
  uint4 part[D / 32];

  // Rows q + head * stride, 16-byte aligned, of `group` <= 8 heads.
  __device__ __forceinline__ void Load(const T* q, int64_t stride, int group) {
    const int head = (threadIdx.x % 32) / 4, j = threadIdx.x % 4;
#pragma unroll
    for (int block = 0; block < D / 32; ++block) {
      part[block] = head < group ? *reinterpret_cast<const uint4*>(q + head * stride + block * 32 + j * 8)
                                 : make_uint4(0, 0, 0, 0);
    }
  }
  __device__ __forceinline__ uint4 operator()(int block) const {
    return part[block];
  }
};

// This one stays in shared memory, for warps that take few: rows of D elements, 16-byte aligned.
template <typename T, int D>
struct SharedQuery {
  const T* rows;
  int group;

  __device__ __forceinline__ uint4 operator()(int block) const {
    const int head = (threadIdx.x % 32) / 4, j = threadIdx.x % 4;
    return head < group ? *reinterpret_cast<const uint4*>(rows + head * D + block * 32 + j * 8)
                        : make_uint4(0, 0, 0, 0);
  }
};

// scores[0], scores[1]: head lane / 4, tokens 2 * (lane % 4) and the next.
template <typename T, int D, typename Query>
__device__ __forceinline__ void ScoreTokens(const Query& query, const uint4 (&raw)[D / 32], float (&scores)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) scores[i] = 0;
#pragma unroll
  for (int block = 0; block < D / 32; ++block) {
    const uint4 q = query(block);
    Mma(scores, q.x, 0u, q.y, 0u, raw[block].x, raw[block].y, T());
    Mma(scores, q.z, 0u, q.w, 0u, raw[block].z, raw[block].w, T());
  }
}

// The output's accumulator: O^T, D / 16 tiles of 16 components x 8 heads. Thread (i, j) has rows i (elements 0, 1) and
// i + 8 (elements 2, 3) of heads 2j and 2j + 1; which components these are, the tile of keys and values says.
template <typename T, int D>
struct OutputFragment {
  float c[D / 16][4];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int m = 0; m < D / 16; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) c[m][e] = 0;
    }
  }
  __device__ __forceinline__ void Scale(float first, float second) {  // heads 2j and 2j + 1
#pragma unroll
    for (int m = 0; m < D / 16; ++m) {
      c[m][0] *= first;
      c[m][1] *= second;
      c[m][2] *= first;
      c[m][3] *= second;
    }
  }
};

// 16 bytes into shared memory, past L1 and past the registers; both addresses are multiples of 16.
__device__ __forceinline__ void CopyAsync(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(SharedAddress(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void CopyAsync(void* to, const void* from, uint64_t cache_policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)),
               "l"(from), "l"(cache_policy)
               : "memory");
}

// 16 tokens of K and V in shared memory. Rows are D elements; the 16-byte piece c of row t lies where piece c ^
// Swizzle(t) would, so that neither 8 rows' same piece (ldmatrix) nor 4 neighbouring pieces of rows 2t and 2t + 1
// (16-byte loads) meet in a bank.
template <typename T, int D>
struct SharedTile {
  static constexpr int kElements = 2 * 16 * D;
  T* k;  // [16][D], and V behind it

  // The component in row i, or i + 8, of an output's tile m.
  __device__ __forceinline__ static int Component(int m, int half, int i) { return m * 16 + half * 8 + i; }
  __device__ __forceinline__ static int Swizzle(int token) { return (token & 1) * 4 + (token / 2 & 3); }

  // Requests the tile by cp.async. row(t) is the cache row of the tile's token t; where a tile has fewer than 16 tokens
  // it repeats one, so that the values of tokens without weight are numbers.
  template <typename Row>
  __device__ __forceinline__ void Request(const T* from_k, int64_t k_row, const T* from_v, int64_t v_row, Row&& row,
                                          uint64_t cache_policy) const {
    constexpr int kPieces = D / 8, kRows = 32 / kPieces;
    const int lane = threadIdx.x % 32, piece = lane % kPieces;
#pragma unroll
    for (int base = 0; base < 16; base += kRows) {
      const int token = base + lane / kPieces;
      const int64_t from = row(token);
      T* to = k + token * D + (piece ^ Swizzle(token)) * 8;
      CopyAsync(to, from_k + from * k_row + piece * 8, cache_policy);
      CopyAsync(to + 16 * D, from_v + from * v_row + piece * 8, cache_policy);
    }
  }
  __device__ __forceinline__ void Keys(int half, uint4 (&raw)[D / 32]) const {
    const int i = threadIdx.x % 32 / 4, j = threadIdx.x % 4;
#pragma unroll
    for (int block = 0; block < D / 32; ++block)
      raw[block] = *reinterpret_cast<const uint4*>(k + (half * 8 + i) * D + ((block * 4 + j) ^ Swizzle(i)) * 8);
  }
  __device__ __forceinline__ void Accumulate(OutputFragment<T, D>& out, uint32_t p0, uint32_t p1) const {
    // Matrices: (components 0-7, tokens 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15) of tile m.
    const int lane = threadIdx.x % 32, token = lane / 16 * 8 + lane % 8, piece = lane / 8 % 2;
    const uint32_t row = SharedAddress(k + (16 + token) * D);
#pragma unroll
    for (int m = 0; m < D / 16; ++m) {
      uint32_t a[4];
      LoadMatricesTransposed(a, row + static_cast<uint32_t>(((2 * m + piece) ^ Swizzle(token)) * 16));
      Mma(out.c[m], a[0], a[1], a[2], a[3], p0, p1, T());
    }
  }
};

// 16 tokens of K and V in a warp's registers, straight from memory: for warps that take few tiles from anywhere. Thread
// (i, j) has of K what the products want of it: tokens i and i + 8, the 16-byte pieces 4 block + j. Of V it has tokens
// 2j, 2j + 1, 2j + 8 and 2j + 9, pieces i and, of 16, i + 8; pairs of tokens are then interleaved for each component.
template <typename T, int D>
struct GatheredTile {
  uint4 key[2][D / 32];
  uint4 value[4][D / 64];

  // row(t) is the cache row of the tile's token t; where a tile has fewer than 16 tokens it repeats one.
  template <typename Row>
  __device__ __forceinline__ void LoadKeys(const T* k, int64_t k_row, Row&& row) {
    const int i = threadIdx.x % 32 / 4, j = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const T* from = k + row(half * 8 + i) * k_row + j * 8;
#pragma unroll
      for (int block = 0; block < D / 32; ++block) key[half][block] = LoadStreaming(from + block * 32);
    }
  }
  template <typename Row>
  __device__ __forceinline__ void LoadValues(const T* v, int64_t v_row, Row&& row) {
    const int i = threadIdx.x % 32 / 4, j = threadIdx.x % 4;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const T* from = v + row(2 * j + t % 2 + t / 2 * 8) * v_row + i * 8;
#pragma unroll
      for (int far = 0; far < D / 64; ++far) value[t][far] = LoadStreaming(from + far * 64);
    }
  }
  __device__ __forceinline__ void Keys(int half, uint4 (&raw)[D / 32]) const {
#pragma unroll
    for (int block = 0; block < D / 32; ++block) raw[block] = key[half][block];
  }
  __device__ __forceinline__ void Accumulate(OutputFragment<T, D>& out, uint32_t p0, uint32_t p1) const {
#pragma unroll
    for (int far = 0; far < D / 64; ++far) AccumulatePart(out, far, p0, p1);
  }
  // Into 64 components of the output, from as many of the values: what one part holds in registers is then free before
  // the next takes some.
  __device__ __forceinline__ void AccumulatePart(OutputFragment<T, D>& out, int far, uint32_t p0, uint32_t p1) const {
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      // A pair of tokens' component Component(far * 4 + m, half, i).
      const auto pair = [&](int t, int half) {
        const int element = half * 4 + m;
        return __byte_perm(Word(value[t][far], element / 2), Word(value[t + 1][far], element / 2),
                           element % 2 == 0 ? 0x5410 : 0x7632);
      };
      Mma(out.c[far * 4 + m], pair(0, 0), pair(0, 1), pair(2, 0), pair(2, 1), p0, p1, T());
    }
  }
  __device__ __forceinline__ static int Component(int m, int half, int i) {
    return m / 4 * 64 + i * 8 + half * 4 + m % 4;
  }

 private:
  __device__ __forceinline__ static uint32_t Word(const uint4& x, int at) {
    return at == 0 ? x.x : at == 1 ? x.y : at == 2 ? x.z : x.w;
  }
};

// Tokens weigh what their scores say, and at least one of every tile has a weight.
struct NoBias {};

// Online-softmax attention of one warp: 16 tokens a step, any order of tokens.
template <typename T, int D, typename Query, typename Tile = SharedTile<T, D>>
struct WarpAttention {
  Query query;
  OutputFragment<T, D> out;
  float row_max = kNegativeInfinity, row_sum = 0;  // of head lane / 4; row_sum is this thread's share until Finish()

  // One tile of 16 tokens; those from `live` >= 1 on get no weight. bias(t): what is added to the score of the tile's
  // token t for head lane / 4, -inf for none.
  template <typename Bias = NoBias>
  __device__ __forceinline__ void Step(const Tile& tile, float scale, float soft_cap, int live, Bias bias = {}) {
    const uint2 weights = Weigh(tile, scale, soft_cap, live, bias);
    tile.Accumulate(out, weights.x, weights.y);
  }

  // The first half of a step, which needs the keys alone: the tokens' weights as Accumulate wants them.
  template <typename Bias = NoBias>
  __device__ __forceinline__ uint2 Weigh(const Tile& tile, float scale, float soft_cap, int live, Bias bias = {}) {
    float x[4];
    ScoreTile(tile, scale, soft_cap, live, x);
    if constexpr (!std::is_same_v<Bias, NoBias>) {
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const int token = 2 * (threadIdx.x % 4) + (t & 1) + 8 * (t >> 1);
        if (token < live) x[t] += bias(token);
      }
    }
    const float best = fmaxf(row_max, BestOfRow(x));
    float shift = best;
    if constexpr (!std::is_same_v<Bias, NoBias>) shift = best == kNegativeInfinity ? 0.0f : best;
    const float rescale = __expf(row_max - shift);
    row_sum *= rescale;
    // The accumulator's columns are heads 2j and 2j + 1; their factors live with the threads i = 2j and 2j + 1.
    const int j = threadIdx.x % 4;
    out.Scale(__shfl_sync(kAllLanes, rescale, 8 * j), __shfl_sync(kAllLanes, rescale, 8 * j + 4));
    row_max = best;
    return WeightsOf(x, shift);
  }

  // The same of the first tiles, the first of which has a live token; does not touch the output. after(t) runs when
  // tile t's keys are no longer needed.
  template <int kTiles, typename After>
  __device__ __forceinline__ void WeighFirst(const Tile (&tile)[kTiles], float scale, int live,
                                             uint2 (&weights)[kTiles], After&& after) {
    float x[kTiles][4];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      ScoreTile(tile[t], scale, 0.0f, live - t * 16, x[t]);
      after(t);
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) row_max = fmaxf(row_max, BestOfRow(x[t]));
#pragma unroll
    for (int t = 0; t < kTiles; ++t) weights[t] = WeightsOf(x[t], row_max);
  }

  // Leaves the warp's result as merged[head][0 .. D) = weighted V, [D] = max, [D + 1] = sum, for the group's heads.
  __device__ __forceinline__ void Finish(int group, float (*merged)[D + 2]) {
    const int i = (threadIdx.x % 32) / 4, j = threadIdx.x % 4;
    row_sum += __shfl_xor_sync(kAllLanes, row_sum, 1);
    row_sum += __shfl_xor_sync(kAllLanes, row_sum, 2);
#pragma unroll
    for (int m = 0; m < D / 16; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (2 * j + (e & 1) < group) merged[2 * j + (e & 1)][Tile::Component(m, e >> 1, i)] = out.c[m][e];
      }
    }
    if (j == 0 && i < group) {
      merged[i][D] = row_max;
      merged[i][D + 1] = row_sum;
    }
  }

 private:
  // Scaled scores of head lane / 4: of tokens 2 * (lane % 4), the next, and 8 further on; -inf from `live` on.
  __device__ __forceinline__ void ScoreTile(const Tile& tile, float scale, float soft_cap, int live,
                                            float (&x)[4]) const {
    const int j = threadIdx.x % 4;
    float score[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint4 raw[D / 32];
      tile.Keys(half, raw);
      ScoreTokens<T, D>(query, raw, score[half]);
    }
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      float s = score[t >> 1][t & 1] * scale;
      if (soft_cap > 0) s = soft_cap * tanhf(s / soft_cap);
      x[t] = 2 * j + (t & 1) + 8 * (t >> 1) < live ? s : kNegativeInfinity;
    }
  }
  __device__ __forceinline__ static float BestOfRow(const float (&x)[4]) {
    float best = fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]));
    best = fmaxf(best, __shfl_xor_sync(kAllLanes, best, 1));
    return fmaxf(best, __shfl_xor_sync(kAllLanes, best, 2));
  }
  // `shift`: row_max, or anything finite where no token has had a weight.
  __device__ __forceinline__ uint2 WeightsOf(float (&x)[4], float shift) {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      x[t] = __expf(x[t] - shift);
      row_sum += x[t];
    }
    return make_uint2(Pack(x[0], x[1], T()), Pack(x[2], x[3], T()));
  }
};

// Component d of one head over the warps' results, not yet divided by *sum. merged: the head's row of the first warp;
// the other warps' lie `stride` floats apart.
template <int D, int kWarps>
__device__ __forceinline__ float MergeWarps(const float* merged, int stride, int d, float* best, float* sum) {
  *best = kNegativeInfinity;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) *best = fmaxf(*best, merged[w * stride + D]);
  *sum = 0;
  float total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float theirs = merged[w * stride + D];
    const float factor = theirs == kNegativeInfinity ? 0.0f : __expf(theirs - *best);  // -inf: the warp had no token
    *sum += merged[w * stride + D + 1] * factor;
    total += merged[w * stride + d] * factor;
  }
  return total;
}

}  // namespace headscope::kernels::decode
