// SPDX-License-Identifier: Apache-2.0
// SparQ's approximate scores: products of the keys with the chosen components of the query.
// - One query head is multiplied in plain fp32 (sparq_stream.cuh) where the GPU has bulk copies.
// - Up to 8 heads go through a ring of each warp (sparq_tile_ring.cuh) to the tensor cores.
// - More heads, and whole rows of K, go from memory to registers to the tensor cores, whose fragments want 128 or 64
//   bytes of a row, with eight loads a thread under way and the other warps of the multiprocessor to cover the rest.
// On the tensor cores tokens are the 16 rows and 8 query heads the columns.
#pragma once

#include "decode/sparq_tile_ring.cuh"
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

// The scores of the span's tokens and up to 8 query heads, into shared memory. weight: B operands, two words for 16
// components. On its way requests the first batches of `next`, if it has tokens; prepare() is called once before, when
// no sums are under way. What the thread had requested before the scores has then arrived.
template <typename T, SparqPath kPath, typename Prepare>
__device__ __forceinline__ void ScoreFewHeads(const SpanView<kPath>& view, TileRing<T>& ring, const TileSource<T>& next,
                                              const char* weight, Prepare&& prepare) {
  constexpr int kRowTiles = kTileTokens / 16, kTokens = kSparqWarps * kTileTokens;
  static_assert(kMaxBatches == 2);  // so that a tile, of two steps at least, has as many requests as there are ahead
  const int lane = threadIdx.x % 32, i = lane / 4, j = lane % 4, group = view.p.x.group;
  const int steps = view.p.plan.rows / 8, tiles = (view.tokens + kTokens - 1) / kTokens, prepared = tiles > 1 ? 1 : 0;
  TileSource<T> source(view);
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile == prepared && next.tokens > 0) {
      if (prepared * steps <= kMaxBatches) WaitForCopies();  // else a batch was awaited that was requested later
      prepare();
    }
    const int first = tile * kTokens + static_cast<int>(threadIdx.x) / 32 * kTileTokens;
    float sum[kRowTiles][4] = {};
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      ring.Wait();
      const uint32_t b = reinterpret_cast<const uint32_t*>(weight)[(step / 2 * 32 + lane) * 2 + step % 2];
#pragma unroll
      for (int m = 0; m < kRowTiles; m += 2) {
        uint32_t a[4];
        ring.Load(a, m);
        MmaOfEight(sum[m], a[0], a[1], b, T());
        MmaOfEight(sum[m + 1], a[2], a[3], b, T());
      }
      __syncwarp();  // before the batch is overwritten
      if (ring.RequestedTile() == tiles) {
        source = next;
        ring.BeginSource();
      }
      ring.Request(source, view.p.kt_component, steps);
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int head = 2 * j + e % 2, token = first + m * 16 + i + e / 2 * 8;
        if (head < group && first < view.tokens)
          view.Row(head)[token] = token < view.tokens ? sum[m][e] : kNegativeInfinity;
      }
    }
  }
}

// Scores of the span's tokens from component rows. A warp takes 64 tokens, a
// thread 8 of them and 4 components a step; two steps are loaded at once. Pairs of components are interleaved for the
// products, whose row i is token 8 i + 2 u, and row i + 8 the next one. A piece of 8 that straddles the end is read
// (rows are padded); none is that starts behind it.
template <typename T, SparqPath kPath>
__device__ __forceinline__ void ScoreComponentRows(const SpanView<kPath>& view, const uint2* weight) {
  const SparqParams& p = view.p;
  const T* kt = static_cast<const T*>(p.kt) + view.Sequence() * p.kt_batch + view.KvHead() * p.kt_head + view.first;
  const int* component = view.choice.component;
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
template <typename T, int D, SparqPath kPath>
__device__ __forceinline__ void ScoreWholeRows(const SpanView<kPath>& view, const uint2* weight) {
  const SparqParams& p = view.p;
  const T* k = static_cast<const T*>(p.x.k) + view.Sequence() * p.x.k_batch + view.KvHead() * p.x.k_head +
               view.first * p.x.k_row;
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
