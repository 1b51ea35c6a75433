// One warp's products of decode on the tensor cores (mma.m16n8k16), fed straight from global memory: no shared memory,
// no shuffles.
//
// Scores: S[head, token] = Q K^T with the group's heads as the 16 rows (8 used) and 8 tokens as columns. Thread (i =
// lane / 4, j = lane % 4) holds of K's fragment token i and, per step of 16 components, four of them. Which components
// a step multiplies is free as long as Q agrees, so a thread loads 16 contiguous bytes and spreads them over two steps.
// The result's fragment gives thread (i, j) head i, tokens 2j and 2j + 1. Output: O^T[component, head] = V^T P^T with
// 16 components as rows and 16 tokens as depth. P^T's fragment wants of thread (i, j) head i, tokens 2j and 2j + 1:
// just what it has. V^T's wants token pairs of one component in one register: a thread loads its 8 components of both
// tokens and interleaves. Heads of a group: at most 8. Products in fp32, probabilities rounded to the element type, as
// FlashAttention does.
#pragma once

#include "decode/decode_common.cuh"

namespace headscope::kernels::decode {

__device__ __forceinline__ void Mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1, __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void Mma(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1, __half) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t Pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ uint32_t Pack(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Q as the A operand: rows 8 .. 15 are zero, so two registers a step. value(head, component) gives the (scaled) query.
template <typename T, int D>
struct QueryFragment {
  uint32_t low[D / 16], high[D / 16];

  template <typename Value>
  __device__ __forceinline__ void Load(int group, Value&& value) {
    const int head = (threadIdx.x % 32) / 4, j = threadIdx.x % 4;
#pragma unroll
    for (int block = 0; block < D / 32; ++block) {
      // Components block * 32 + j * 8 + 0 .. 7 belong to this thread: the first four to step 2 * block, the others to
      // the next.
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int first = block * 32 + j * 8 + half * 4;
        float x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = head < group ? value(head, first + i) : 0.0f;
        low[2 * block + half] = Pack(x[0], x[1], T());
        high[2 * block + half] = Pack(x[2], x[3], T());
      }
    }
  }
};

// Requests one token's row piece for ScoreTokens: `row` points at the K row of token lane / 4 of the tile.
template <typename T, int D>
__device__ __forceinline__ void LoadKeyTile(uint4 (&raw)[D / 32], const T* row) {
  const int j = threadIdx.x % 4;
#pragma unroll
  for (int block = 0; block < D / 32; ++block) raw[block] = LoadStreaming(row + block * 32 + j * 8);
}

// scores[0], scores[1]: head lane / 4, tokens 2 * (lane % 4) and the next.
template <typename T, int D>
__device__ __forceinline__ void ScoreTokens(const QueryFragment<T, D>& q, const uint4 (&raw)[D / 32],
                                            float (&scores)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) scores[i] = 0;
#pragma unroll
  for (int block = 0; block < D / 32; ++block) {
    Mma(scores, q.low[2 * block], 0u, q.high[2 * block], 0u, raw[block].x, raw[block].y, T());
    Mma(scores, q.low[2 * block + 1], 0u, q.high[2 * block + 1], 0u, raw[block].z, raw[block].w, T());
  }
}

// The output's accumulator: O^T, D / 16 tiles of 16 components x 8 heads. In tile m, thread (i, j) has the component
// Component(m, i, 0) (elements 0, 1) and Component(m, i, 1) (elements 2, 3) of heads 2j and 2j + 1.
template <typename T, int D>
struct OutputFragment {
  float c[D / 16][4];

  __device__ __forceinline__ static int Component(int tile, int i, int half) {
    return D == 128 ? half * 64 + i * 8 + tile : i * 8 + half * 4 + tile;
  }
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

// V of 16 tokens: raw[t][s] is 16 bytes of token 2j + (t & 1) + 8 * (t >> 1), components s * 64 + i * 8 ...
template <typename T, int D>
__device__ __forceinline__ void LoadValueTile(uint4 (&raw)[4][D / 64], const T* const (&rows)[4]) {
  const int i = (threadIdx.x % 32) / 4;
#pragma unroll
  for (int t = 0; t < 4; ++t) {
#pragma unroll
    for (int s = 0; s < D / 64; ++s) raw[t][s] = LoadStreaming(rows[t] + s * 64 + i * 8);
  }
}

// p0: probabilities of tokens 2j, 2j + 1 of head i, packed; p1: of tokens 2j + 8, 2j + 9.
template <typename T, int D>
__device__ __forceinline__ void AccumulateValues(OutputFragment<T, D>& out, const uint4 (&raw)[4][D / 64], uint32_t p0,
                                                 uint32_t p1) {
  auto word = [&](int t, int s, int w) {
    return w == 0 ? raw[t][s].x : w == 1 ? raw[t][s].y : w == 2 ? raw[t][s].z : raw[t][s].w;
  };
  // Component c of the thread's eight is half (c & 1) of word c / 2; a register wants it from tokens t (low) and t + 1
  // (high).
  auto pair = [&](int t, int s, int c) {
    return __byte_perm(word(t, s, c / 2), word(t + 1, s, c / 2), (c & 1) ? 0x7632 : 0x5410);
  };
#pragma unroll
  for (int m = 0; m < D / 16; ++m) {
    if constexpr (D == 128) {
      Mma(out.c[m], pair(0, 0, m), pair(0, D / 64 - 1, m), pair(2, 0, m), pair(2, D / 64 - 1, m), p0, p1, T());
    } else {
      Mma(out.c[m], pair(0, 0, m), pair(0, 0, m + 4), pair(2, 0, m), pair(2, 0, m + 4), p0, p1, T());
    }
  }
}

// A weight as the sum of two values of the element type, so that it keeps 16 bits of mantissa or more.
template <typename T>
__device__ __forceinline__ float Rounded(float x) {
  T value;
  Store(&value, x);
  return ToFloat(value);
}

// Online-softmax attention of one warp: 16 tokens a step, any order of tokens.
template <typename T, int D>
struct WarpAttention {
  QueryFragment<T, D> query;
  OutputFragment<T, D> out;
  float row_max = kNegativeInfinity, row_sum = 0;  // of head lane / 4; row_sum is this thread's share until Finish()

  // One tile. token(t): the cache row of the tile's token t, valid for every t; tokens t >= live get no weight. live
  // >= 1.
  template <typename Token>
  __device__ __forceinline__ void Step(const T* k, int64_t k_row, const T* v, int64_t v_row, float scale,
                                       float soft_cap, int live, Token&& token) {
    const int i = (threadIdx.x % 32) / 4, j = threadIdx.x % 4;
    uint4 k_raw[2][D / 32], v_raw[4][D / 64];
    LoadKeyTile<T, D>(k_raw[0], k + static_cast<int64_t>(token(i)) * k_row);
    LoadKeyTile<T, D>(k_raw[1], k + static_cast<int64_t>(token(8 + i)) * k_row);
    const T* rows[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) rows[t] = v + static_cast<int64_t>(token(2 * j + (t & 1) + 8 * (t >> 1))) * v_row;
    LoadValueTile<T, D>(v_raw, rows);

    float score[2][4];
    ScoreTokens<T, D>(query, k_raw[0], score[0]);
    ScoreTokens<T, D>(query, k_raw[1], score[1]);
    float x[4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      float s = score[t >> 1][t & 1] * scale;
      if (soft_cap > 0) s = soft_cap * tanhf(s / soft_cap);
      x[t] = 2 * j + (t & 1) + 8 * (t >> 1) < live ? s : kNegativeInfinity;
    }
    float best = fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]));
    best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 1));
    best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 2));
    best = fmaxf(best, row_max);  // finite, since the tile has a live token
    const float rescale = __expf(row_max - best);
    row_max = best;
    row_sum *= rescale;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      x[t] = __expf(x[t] - best);
      row_sum += x[t];
    }
    // The accumulator's columns are heads 2j and 2j + 1; their factors live with the threads i = 2j and 2j + 1.
    out.Scale(__shfl_sync(0xffffffffu, rescale, 8 * j), __shfl_sync(0xffffffffu, rescale, 8 * j + 4));
    AccumulateValues<T, D>(out, v_raw, Pack(x[0], x[1], T()), Pack(x[2], x[3], T()));
  }

  // Leaves the warp's result as merged[head][0 .. D) = weighted V, [D] = max, [D + 1] = sum, for the group's heads.
  __device__ __forceinline__ void Finish(int group, float (*merged)[D + 2]) {
    const int i = (threadIdx.x % 32) / 4, j = threadIdx.x % 4;
    row_sum += __shfl_xor_sync(0xffffffffu, row_sum, 1);
    row_sum += __shfl_xor_sync(0xffffffffu, row_sum, 2);
#pragma unroll
    for (int m = 0; m < D / 16; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (2 * j + (e & 1) < group)
          merged[2 * j + (e & 1)][OutputFragment<T, D>::Component(m, i, e >> 1)] = out.c[m][e];
      }
    }
    if (j == 0 && i < group) {
      merged[i][D] = row_max;
      merged[i][D + 1] = row_sum;
    }
  }
};

// Component d of one head over the warps' results, not yet divided by *sum.
template <int D>
__device__ __forceinline__ float MergeWarps(const float (*merged)[D + 2], int stride, int d, float* best, float* sum) {
  *best = kNegativeInfinity;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) *best = fmaxf(*best, merged[w * stride][D]);
  *sum = 0;
  float total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const float factor = merged[w * stride][D] == kNegativeInfinity
                             ? 0.0f
                             : __expf(merged[w * stride][D] - *best);  // a warp that had no token
    *sum += merged[w * stride][D + 1] * factor;
    total += merged[w * stride][d] * factor;
  }
  return total;
}

}  // namespace headscope::kernels::decode
