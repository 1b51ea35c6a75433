// SparQ's approximate scores: products of the keys with the chosen components of the query. Keys go from memory to
// registers to the products: eight or sixteen 16-byte loads a thread are under way at once, and the other warps of the
// multiprocessor cover the rest. Up to four query heads are multiplied in plain fp32, because then a warp may read 512
// contiguous bytes of a component's row; more heads, and whole rows of K, go through the tensor cores, whose fragments
// want 128 or 64 bytes of a row. There tokens are the 16 rows and 8 query heads the columns.
#pragma once

#include "decode/sparq_shared.cuh"
#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// Scores of one head of a thread's tokens, with -inf from the end on. `add`: to what is there already.
__device__ __forceinline__ void StoreFour(float* to, float4 x, int live, bool add) {
  auto* at = reinterpret_cast<float4*>(to);
  if (add) {
    const float4 before = *at;
    x = make_float4(x.x + before.x, x.y + before.y, x.z + before.z, x.w + before.w);
  }
  if (live < 4) {
    x.w = kNegativeInfinity;
    if (live < 3) x.z = kNegativeInfinity;
    if (live < 2) x.y = kNegativeInfinity;
    if (live < 1) x.x = kNegativeInfinity;
  }
  *at = x;
}

// Sums of products of 8 tokens with kHeads query heads in plain fp32; kt: the first token's place in row 0. A warp's
// threads take neighbours: 512 contiguous bytes of a row; 16 rows at once for one head, 8 for more.
template <typename T, int kHeads>
__device__ __forceinline__ void ScoreEight(const SparqParams& p, const SparqShared& fixed, const T* kt,
                                           float (&sum)[kHeads][8]) {
  constexpr int kRows = kHeads == 1 ? 16 : 8;
#pragma unroll
  for (int head = 0; head < kHeads; ++head) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[head][i] = 0;
  }
#pragma unroll 1
  for (int row = 0; row < p.rank; row += kRows) {  // rows past the rank repeat one and weigh nothing
    uint4 raw[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) raw[r] = LoadStreaming(kt + fixed.component[row + r] * p.kt_component);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float key[8];
      Unpack(raw[r], key, T());
#pragma unroll
      for (int head = 0; head < kHeads; ++head) {
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[head][i] += fixed.weight[head][row + r] * key[i];
      }
    }
  }
}

// The scores of a thread's 16 tokens of the one query head; -inf from the span's end on. A piece of 8 tokens that
// straddles the end is read (rows are padded); none is that starts behind it.
template <typename T>
__device__ __forceinline__ void ScoreInRegisters(const SpanView& view, const T* kt, float (&score)[2][8]) {
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    const int first = PlaceInSpan(piece, 0);
    float sum[1][8] = {};
    if (first < view.tokens) ScoreEight<T, 1>(view.p, view.fixed, kt + first, sum);
#pragma unroll
    for (int i = 0; i < 8; ++i) score[piece][i] = first + i < view.tokens ? sum[0][i] : kNegativeInfinity;
  }
}

// The same of up to four query heads, into shared memory.
template <typename T>
__device__ __forceinline__ void ScoreFewHeads(const SpanView& view, const T* kt) {
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x) * 8; first < view.tokens; first += kSparqThreads * 8) {
    float sum[4][8];
    ScoreEight<T, 4>(view.p, view.fixed, kt + first, sum);
#pragma unroll
    for (int head = 0; head < 4; ++head) {
      if (head >= view.p.x.group) break;
      const float(&x)[8] = sum[head];
      StoreFour(view.Row(head) + first, make_float4(x[0], x[1], x[2], x[3]), view.tokens - first, false);
      StoreFour(view.Row(head) + first + 4, make_float4(x[4], x[5], x[6], x[7]), view.tokens - first - 4, false);
    }
  }
}

// Scores of the span's tokens from component rows; kt: the first token's place in row 0. A warp takes 64 tokens, a
// thread 8 of them and 4 components a step; two steps are loaded at once. Pairs of components are interleaved for the
// products, whose row i is token 8 i + 2 u, and row i + 8 the next one. A piece of 8 that straddles the end is read
// (rows are padded); none is that starts behind it.
template <typename T>
__device__ __forceinline__ void ScoreComponentRows(const SpanView& view, const T* kt, const uint2* weight) {
  const SparqParams& p = view.p;
  const int* component = view.fixed.component;
  const int tokens = view.tokens;
  const int lane = threadIdx.x % 32, i = lane / 4, j = lane % 4, steps = p.plan.steps;
#pragma unroll 1
  for (int tile = threadIdx.x / 32 * 64; tile < tokens; tile += kSparqWarps * 64) {
    const int first = tile + i * 8;
    const T* from = kt + min(first, (tokens - 1) / 8 * 8);
#pragma unroll 1
    for (int step = 0; step < steps; step += 2) {
      const bool both = step + 1 < steps;
      uint4 raw[2][4];
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        if (s == 1 && !both) break;
        const int2 near = *reinterpret_cast<const int2*>(component + (step + s) * 16 + 2 * j);
        const int2 far = *reinterpret_cast<const int2*>(component + (step + s) * 16 + 2 * j + 8);
        raw[s][0] = LoadStreaming(from + near.x * p.kt_component);
        raw[s][1] = LoadStreaming(from + near.y * p.kt_component);
        raw[s][2] = LoadStreaming(from + far.x * p.kt_component);
        raw[s][3] = LoadStreaming(from + far.y * p.kt_component);
      }
#pragma unroll 1
      for (int head_tile = 0; head_tile < p.plan.head_tiles; ++head_tile) {
        float c[4][4] = {};
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          if (s == 1 && !both) break;
          const uint2 b = weight[(head_tile * steps + step + s) * 32 + lane];
#pragma unroll
          for (int u = 0; u < 4; ++u) {
            const auto word = [&](int r) {
              return u == 0 ? raw[s][r].x : u == 1 ? raw[s][r].y : u == 2 ? raw[s][r].z : raw[s][r].w;
            };
            Mma(c[u], __byte_perm(word(0), word(1), 0x5410), __byte_perm(word(0), word(1), 0x7632),
                __byte_perm(word(2), word(3), 0x5410), __byte_perm(word(2), word(3), 0x7632), b.x, b.y, T());
          }
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int head = head_tile * 8 + 2 * j + h;
          if (head >= p.x.group) break;
          float* to = view.Row(head) + first;
          StoreFour(to, make_float4(c[0][h], c[0][h + 2], c[1][h], c[1][h + 2]), tokens - first, step > 0);
          StoreFour(to + 4, make_float4(c[2][h], c[2][h + 2], c[3][h], c[3][h + 2]), tokens - first - 4, step > 0);
        }
      }
    }
  }
}

// The same from whole rows of K, 16 tokens a warp; a thread takes 8 neighbouring components of tokens i and i + 8 and
// spreads them over two steps.
template <typename T, int D>
__device__ __forceinline__ void ScoreWholeRows(const SpanView& view, const T* k, const uint2* weight) {
  const SparqParams& p = view.p;
  const int tokens = view.tokens;
  const int lane = threadIdx.x % 32, i = lane / 4, j = lane % 4;
#pragma unroll 1
  for (int tile = threadIdx.x / 32 * 16; tile < tokens; tile += kSparqWarps * 16) {
    uint4 raw[2][D / 32];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const T* row = k + min(tile + half * 8 + i, tokens - 1) * p.x.k_row + j * 8;
#pragma unroll
      for (int block = 0; block < D / 32; ++block) raw[half][block] = LoadStreaming(row + block * 32);
    }
#pragma unroll 1
    for (int head_tile = 0; head_tile < p.plan.head_tiles; ++head_tile) {
      float c[4] = {};
#pragma unroll
      for (int block = 0; block < D / 32; ++block) {
        const uint2 even = weight[(head_tile * (D / 16) + 2 * block) * 32 + lane];
        const uint2 odd = weight[(head_tile * (D / 16) + 2 * block + 1) * 32 + lane];
        Mma(c, raw[0][block].x, raw[1][block].x, raw[0][block].y, raw[1][block].y, even.x, even.y, T());
        Mma(c, raw[0][block].z, raw[1][block].z, raw[0][block].w, raw[1][block].w, odd.x, odd.y, T());
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int head = head_tile * 8 + 2 * j + h;
        if (head >= p.x.group) break;
        float* to = view.Row(head) + tile + i;
        to[0] = tile + i < tokens ? c[h] : kNegativeInfinity;
        to[8] = tile + i + 8 < tokens ? c[h + 2] : kNegativeInfinity;
      }
    }
  }
}

}  // namespace headscope::kernels::decode
