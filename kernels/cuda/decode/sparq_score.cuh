// SparQ's choice of components, and its approximate scores: products of the keys with the chosen, temperature-corrected
// query components. Keys go from memory to registers to the products: eight 16-byte loads a thread are under way at
// once, and the other warps of the multiprocessor cover the rest. Up to four query heads are multiplied in plain fp32,
// because then a warp may read 512 contiguous bytes of a component's row; more heads, and whole rows of K, go through
// the tensor cores, whose fragments want 128 or 64 bytes of a row. There tokens are the 16 rows and 4 query heads (each
// as rounded value and remainder, so that a weight keeps 16 bits or more) the columns.
#pragma once

#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// The r components with the largest sum over the group of |q| (lower component first among equals), ascending and
// padded to a multiple of 16 by repeating the last; and the weights as the B operand of m16n8k16: column 2 h of a tile
// of 4 heads is head h rounded to the element type, column 2 h + 1 what the rounding lost. A step's 16 rows are the
// chosen components in order or, where whole rows of K are read, all components, zero but for the chosen, in the order
// in which ScoreWholeRows takes them. exact_weight [row][4]: the first four heads' weights in fp32. Every warp finds
// the same components; each makes some heads' weights.
template <typename T, int D>
__device__ __forceinline__ void ChooseComponents(const SparqParams& p, int list, int* component, T* weight,
                                                 float* exact_weight) {
  constexpr int kPer = D / 32;
  const DecodeOperands& x = p.x;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, steps = p.plan.steps;
  const T* q = static_cast<const T*>(x.q) + list / x.num_kv_heads * x.q_batch +
               static_cast<int64_t>(list % x.num_kv_heads) * x.group * x.q_head + lane;
  float magnitude[kPer] = {};
#pragma unroll 4
  for (int head = 0; head < x.group; ++head) {
#pragma unroll
    for (int c = 0; c < kPer; ++c) magnitude[c] += fabsf(ToFloat(q[head * x.q_head + c * 32]));
  }
  for (int i = threadIdx.x; i < p.plan.head_tiles * steps * 32; i += kSparqThreads)
    reinterpret_cast<uint2*>(weight)[i] = make_uint2(0, 0);
  for (int i = threadIdx.x; i < 4 * kMaxRank; i += kSparqThreads) exact_weight[i] = 0;
  uint32_t key[kPer], highest = 0;
#pragma unroll
  for (int c = 0; c < kPer; ++c) {
    key[c] = __float_as_uint(magnitude[c]);
    highest = max(highest, key[c]);
  }
  const auto reached = [&](uint32_t t) {
    int count = 0;
#pragma unroll
    for (int c = 0; c < kPer; ++c) count += __popc(__ballot_sync(kAllLanes, key[c] >= t));
    return count;
  };
  uint32_t low = 0, high = __reduce_max_sync(kAllLanes, highest) + 1;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    const int count = reached(middle);
    if (count >= p.rank) {
      low = middle;
      if (count == p.rank) break;
    } else {
      high = middle;
    }
  }
  int ties = p.rank - reached(low + 1);
  int place[kPer], chosen = 0;
  const int padded = (p.rank + 15) / 16 * 16;
#pragma unroll
  for (int c = 0; c < kPer; ++c) {
    const uint32_t below = (1u << lane) - 1;
    const uint32_t equal = __ballot_sync(kAllLanes, key[c] == low);
    const bool take = key[c] > low || (key[c] == low && __popc(equal & below) < ties);
    ties -= __popc(equal);
    const uint32_t taken = __ballot_sync(kAllLanes, take);
    place[c] = take ? chosen + __popc(taken & below) : -1;
    chosen += __popc(taken);
    if (warp != 0 || !take) continue;
    component[place[c]] = c * 32 + lane;
    for (int i = p.rank; place[c] == p.rank - 1 && i < padded; ++i) component[i] = c * 32 + lane;
  }
  __syncthreads();  // the weights are zero
  for (int head = warp; head < x.group; head += kSparqWarps) {
    float value[kPer], top = 0, all = 0;
#pragma unroll
    for (int c = 0; c < kPer; ++c) {
      value[c] = ToFloat(q[head * x.q_head + c * 32]);
      all += fabsf(value[c]);
      if (place[c] >= 0) top += fabsf(value[c]);
    }
    top = WarpSum(top);
    all = WarpSum(all);
    // Equation 9: temperature sqrt(head_dim * |q_top|_1 / |q|_1); chosen components of zero give equal scores anyway.
    // The paper's attention scale is head_dim^-0.5; another scale of the model multiplies in.
    const float factor = top > 0 ? x.scale * sqrtf(all / top) : x.scale;
#pragma unroll
    for (int c = 0; c < kPer; ++c) {
      if (place[c] < 0) continue;
      const int d = c * 32 + lane;
      // Lane 4 n + pair of the fragment holds column n of a step's rows 2 pair, 2 pair + 1 and 8 further on.
      const int step = p.kt != nullptr ? place[c] / 16 : 2 * c + d % 8 / 4;
      const int pair = p.kt != nullptr ? place[c] % 8 / 2 : d % 32 / 8;
      const int element = p.kt != nullptr ? place[c] % 16 / 8 * 2 + place[c] % 2 : d % 4;
      T* to = weight + (((head / 4) * steps + step) * 32 + (head % 4) * 8 + pair) * 4 + element;
      const float exact = value[c] * factor;
      if (head < 4) exact_weight[place[c] * 4 + head] = exact;
      Store(to, exact);
      Store(to + 4 * 4, exact - ToFloat(*to));
    }
  }
  __syncthreads();
}

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

// Scores of `tokens` tokens of at most four query heads from component rows, in plain fp32; kt: the first token's place
// in row 0. A thread takes 8 tokens, a warp 256 neighbours: 512 contiguous bytes of a row, 8 rows at once. A piece of 8
// tokens that straddles the end is read (rows are padded); none is that starts behind it.
template <typename T, int kHeads>
__device__ __forceinline__ void ScoreFewHeads(const SparqParams& p, const T* kt, const int* component,
                                              const float* weight, int tokens, float* scores) {
  constexpr int kRows = 8;
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x) * 8; first < tokens; first += kSparqThreads * 8) {
    const T* from = kt + first;
    float sum[kHeads][8] = {};
#pragma unroll 1
    for (int row = 0; row < p.rank; row += kRows) {  // rows past the rank repeat the last and weigh nothing
      uint4 raw[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) raw[r] = LoadStreaming(from + component[row + r] * p.kt_component);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float key[8];
        Unpack(raw[r], key, T());
        const float4 w = *reinterpret_cast<const float4*>(weight + (row + r) * 4);
#pragma unroll
        for (int head = 0; head < kHeads; ++head) {
          const float mine = head == 0 ? w.x : head == 1 ? w.y : head == 2 ? w.z : w.w;
#pragma unroll
          for (int i = 0; i < 8; ++i) sum[head][i] += mine * key[i];
        }
      }
    }
#pragma unroll
    for (int head = 0; head < kHeads; ++head) {
      if (head >= p.x.group) break;
      float* to = scores + head * p.plan.score_pitch + first;
      StoreFour(to, make_float4(sum[head][0], sum[head][1], sum[head][2], sum[head][3]), tokens - first, false);
      StoreFour(to + 4, make_float4(sum[head][4], sum[head][5], sum[head][6], sum[head][7]), tokens - first - 4, false);
    }
  }
}

// Scores of `tokens` tokens from component rows; kt: the first token's place in row 0. A warp takes 64 tokens, a thread
// 8 of them and 4 components a step; two steps are loaded at once. Pairs of components are interleaved for the
// products, whose row i is token 8 i + 2 u, and row i + 8 the next one. A piece of 8 that straddles the end is read
// (rows are padded); none is that starts behind it.
template <typename T>
__device__ __forceinline__ void ScoreComponentRows(const SparqParams& p, const T* kt, const int* component,
                                                   const uint2* weight, int tokens, float* scores) {
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
        const int head = head_tile * 4 + j;
        if (head >= p.x.group) continue;
        float* to = scores + head * p.plan.score_pitch + first;
        StoreFour(to, make_float4(c[0][0] + c[0][1], c[0][2] + c[0][3], c[1][0] + c[1][1], c[1][2] + c[1][3]),
                  tokens - first, step > 0);
        StoreFour(to + 4, make_float4(c[2][0] + c[2][1], c[2][2] + c[2][3], c[3][0] + c[3][1], c[3][2] + c[3][3]),
                  tokens - first - 4, step > 0);
      }
    }
  }
}

// The same from whole rows of K, 16 tokens a warp; a thread takes 8 neighbouring components of tokens i and i + 8 and
// spreads them over two steps.
template <typename T, int D>
__device__ __forceinline__ void ScoreWholeRows(const SparqParams& p, const T* k, const uint2* weight, int tokens,
                                               float* scores) {
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
      const int head = head_tile * 4 + j;
      if (head >= p.x.group) continue;
      float* to = scores + head * p.plan.score_pitch + tile + i;
      to[0] = tile + i < tokens ? c[0] + c[1] : kNegativeInfinity;
      to[8] = tile + i + 8 < tokens ? c[2] + c[3] : kNegativeInfinity;
    }
  }
}

}  // namespace headscope::kernels::decode
