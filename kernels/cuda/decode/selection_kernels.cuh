// SPDX-License-Identifier: Apache-2.0
// A decode step over any selection in fp32 arithmetic, for what the tensor cores do not take (selection_tiles.cuh):
// parts of lists, then their merge.
//
// A row of K or V is read by 16 or 32 lanes in 16-byte words, so that a warp reads one or two rows at once, and kAhead
// of each before it uses the first. Rows that lanes read together form a team; every team keeps maximum, sum and output
// of its own rows, and they meet at the end. Lanes that a row has no words for hold zeros. The order of additions is
// fixed by the selection and the number of multiprocessors.
#pragma once

#include <type_traits>

#include "decode/decode_common.cuh"
#include "decode/selection_params.h"
#include "decode/selection_tiles.cuh"
#include "fast_math.cuh"

namespace headscope::kernels::decode {

// Rows of up to kMax components.
template <typename T, int Lanes, int Loads>
struct SelectionRow {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));  // elements of a load
  static constexpr int kLanes = Lanes, kLoads = Loads;
  static constexpr int kValues = kVector * kLoads;  // of a lane
  static constexpr int kMax = kValues * kLanes;

  // Component of a lane's value i.
  static __device__ __forceinline__ int Component(int lane, int i) {
    return (i / kVector * kLanes + lane) * kVector + i % kVector;
  }
};

// How the rows of a problem's K (and Q) and of its V lie in a team's lanes.
template <typename T, int Lanes, int KeyLoads, int ValueLoads>
struct SelectionRows {
  using Key = SelectionRow<T, Lanes, KeyLoads>;
  using Value = SelectionRow<T, Lanes, ValueLoads>;
  using Element = T;
  static constexpr int kLanes = Lanes, kTeams = 32 / Lanes;
  static constexpr int kAhead = KeyLoads + ValueLoads <= 4 ? 4 : 2;
};

__device__ __forceinline__ float ToFloat(float x) {
  return x;
}
__device__ __forceinline__ void Store(float* to, float x) {
  *to = x;
}
__device__ __forceinline__ void UnpackValues(const uint4& raw, float* out, float) {
  out[0] = __uint_as_float(raw.x);
  out[1] = __uint_as_float(raw.y);
  out[2] = __uint_as_float(raw.z);
  out[3] = __uint_as_float(raw.w);
}
template <typename T>
__device__ __forceinline__ void UnpackValues(const uint4& raw, float* out, T) {
  float values[8];
  Unpack(raw, values, T{});
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = values[i];
}

// What one lane holds of a row.
template <typename T, typename Row>
struct RowPart {
  uint4 raw[Row::kLoads];

  // `dim`: the row's components.
  __device__ __forceinline__ void Load(const T* row, int lane, int dim) {
#pragma unroll
    for (int i = 0; i < Row::kLoads; ++i) {
      const int word = i * Row::kLanes + lane;
      raw[i] = make_uint4(0, 0, 0, 0);
      if (word * Row::kVector < dim) raw[i] = __ldg(reinterpret_cast<const uint4*>(row) + word);
    }
  }
  __device__ __forceinline__ void Values(float (&values)[Row::kValues]) const {
#pragma unroll
    for (int i = 0; i < Row::kLoads; ++i) UnpackValues(raw[i], values + i * Row::kVector, T{});
  }
};

// A list's tokens by their numbers in it.
struct ListTokens {
  const int32_t* pages;
  int page_size, count;
  int first_seen, hidden;  // token; tokens of the first page that lie before it
  int64_t first;           // the number of its first token in a row of weights

  __device__ __forceinline__ ListTokens(const SelectionParams& p, int list)
      : page_size(p.page_size), first_seen(p.first_seen), hidden(0) {
    int64_t begin = p.page_begin[list];
    int num_pages = static_cast<int>(p.page_begin[list + 1] - begin);
    if (first_seen > 0) begin += SkipUnseen(p, begin, &num_pages, &hidden);
    pages = p.pages + begin;
    first = begin * page_size;
    count = 0;
    if (num_pages > 0) {
      const int64_t last = int64_t{pages[num_pages - 1]} * page_size;
      count = static_cast<int>(int64_t{num_pages - 1} * page_size + min(int64_t{page_size}, p.x.seq_k - last));
    }
  }
  // The cache row of the list's token; before the window, another's that is seen.
  __device__ __forceinline__ int64_t operator[](int number) const {
    if (page_size == 1) return pages[number];
    const int page = number / page_size;
    return max(pages[page] * page_size + (number - page * page_size), first_seen);
  }
};

// 2^(x - of), where nothing but -inf may have been met: then 0.
__device__ __forceinline__ float ShiftOf(float maximum) {
  return maximum == kNegativeInfinity ? 0.0f : maximum;
}

// The end of a query head: its softmax's numerators and their sum, maximum in base 2; its sink and the mean-value term.
template <typename T>
__device__ __forceinline__ void StoreComponent(const WithSinks<SelectionParams>& p, int sequence, int head, int d,
                                               float o, float maximum, float sum) {
  constexpr float kLn2 = 0.693147180559945309f;
  const int64_t row = int64_t{sequence} * p.x.num_kv_heads * p.x.group + head;
  if (d == 0 && p.row_max != nullptr) p.row_max[row] = LargestScore(maximum * kLn2, sum);
  if (p.sinks.count > 0) {
    const float sink = p.sinks.logit[head] * 1.44269504088896340736f, largest = fmaxf(maximum, sink);
    const float before = cuda::Exp2(maximum - largest);
    o *= before;
    sum = sum * before + cuda::Exp2(sink - largest);
    maximum = largest;
  }
  float value = sum == 0 ? 0.0f : o / sum;
  if (p.alpha != nullptr) {
    const float alpha = p.alpha[row];
    const int64_t list = int64_t{sequence} * p.x.num_kv_heads + head / p.x.group;
    value = alpha * value + (1.0f - alpha) * p.mean[list * p.value_dim + d];
  }
  Store(static_cast<T*>(p.x.o) + sequence * p.x.o_batch + head * p.x.o_head + d, value);
  if (d == 0 && p.lse != nullptr) p.lse[row] = sum == 0 ? kNegativeInfinity : (maximum + log2f(sum)) * kLn2;
}

// H: places for query heads. With fewer heads the others repeat the last one, whose results they do not store.
template <typename Rows, int H>
__global__ void __launch_bounds__(kSelectionWarps * 32)
    SelectionKernel(const __grid_constant__ WithSinks<SelectionParams> p) {
  using T = typename Rows::Element;
  using Key = typename Rows::Key;
  using Value = typename Rows::Value;
  constexpr int kAhead = Rows::kAhead;
  constexpr int kStep = kAhead * Rows::kTeams;  // tokens of a warp
  __shared__ float warp_o[kSelectionWarps][H][Value::kMax];
  __shared__ float warp_maximum[kSelectionWarps][H], warp_sum[kSelectionWarps][H];

  const int stretch = static_cast<int>(blockIdx.x % static_cast<unsigned>(p.stretches));
  const int part = static_cast<int>(blockIdx.x / static_cast<unsigned>(p.stretches));
  const int list = part / p.head_blocks, head_block = part % p.head_blocks;
  const int sequence = list / p.x.num_kv_heads, kv_head = list % p.x.num_kv_heads;
  const int first_head = head_block * H, heads = min(H, p.x.group - first_head);  // in the group
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int team = lane / Rows::kLanes, place = lane % Rows::kLanes;

  const ListTokens tokens(p, list);
  const int begin = stretch * p.stretch, end = min(begin + p.stretch, tokens.count);
  const T* const k = static_cast<const T*>(p.x.k) + sequence * p.x.k_batch + kv_head * p.x.k_head;
  const T* const v = static_cast<const T*>(p.x.v) + sequence * p.x.v_batch + kv_head * p.x.v_head;

  // Scores come out in base 2 or, where a soft cap follows, as the argument of its tanh.
  constexpr float kLog2E = 1.44269504088896340736f;
  const float factor = p.soft_cap > 0 ? p.x.scale / p.soft_cap : p.x.scale * kLog2E;
  const float cap = p.soft_cap * kLog2E;
  float q[H][Key::kValues], o[H][Value::kValues], maximum[H], sum[H];
#pragma unroll
  for (int h = 0; h < H; ++h) {
    const int head = kv_head * p.x.group + first_head + min(h, heads - 1);
    RowPart<T, Key> row;
    row.Load(static_cast<const T*>(p.x.q) + sequence * p.x.q_batch + head * p.x.q_head, place, p.head_dim);
    row.Values(q[h]);
#pragma unroll
    for (int i = 0; i < Key::kValues; ++i) q[h][i] *= factor;
#pragma unroll
    for (int i = 0; i < Value::kValues; ++i) o[h][i] = 0;
    maximum[h] = kNegativeInfinity;
    sum[h] = 0;
  }

#pragma unroll 1
  for (int at = begin + warp * kStep; at < end; at += kSelectionWarps * kStep) {
    RowPart<T, Key> keys[kAhead];
    RowPart<T, Value> values[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int64_t token = tokens[min(at + u * Rows::kTeams + team, end - 1)];  // the last one stands in for none
      keys[u].Load(k + token * p.x.k_row, place, p.head_dim);
      values[u].Load(v + token * p.x.v_row, place, p.value_dim);
    }
    float weight[H][kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      float key[Key::kValues];
      keys[u].Values(key);
#pragma unroll
      for (int h = 0; h < H; ++h) {
        float dot = 0;
#pragma unroll
        for (int i = 0; i < Key::kValues; ++i) dot = fmaf(q[h][i], key[i], dot);
#pragma unroll
        for (int offset = Rows::kLanes / 2; offset > 0; offset /= 2) dot += __shfl_xor_sync(kAllLanes, dot, offset);
        if (p.soft_cap > 0) dot = cap * cuda::Tanh(dot);
        const int number = at + u * Rows::kTeams + team;
        if (p.weights != nullptr && number < end) {
          const int64_t row = (first_head + min(h, heads - 1)) * p.weight_stride;
          dot += log2f(p.weights[row + tokens.first + number]);
        }
        weight[h][u] = number < end && number >= tokens.hidden ? dot : kNegativeInfinity;
      }
    }
#pragma unroll
    for (int h = 0; h < H; ++h) {
      float largest = maximum[h];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) largest = fmaxf(largest, weight[h][u]);
      const float shift = ShiftOf(largest), decay = cuda::Exp2(maximum[h] - shift);
      maximum[h] = largest;
      sum[h] *= decay;
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        weight[h][u] = cuda::Exp2(weight[h][u] - shift);
        sum[h] += weight[h][u];
      }
#pragma unroll
      for (int i = 0; i < Value::kValues; ++i) o[h][i] *= decay;
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      float value[Value::kValues];
      values[u].Values(value);
#pragma unroll
      for (int h = 0; h < H; ++h) {
#pragma unroll
        for (int i = 0; i < Value::kValues; ++i) o[h][i] = fmaf(weight[h][u], value[i], o[h][i]);
      }
    }
  }

  // The teams of a warp, then the warps.
#pragma unroll
  for (int h = 0; h < H; ++h) {
    float largest = maximum[h];
#pragma unroll
    for (int offset = Rows::kLanes; offset < 32; offset *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
    const float own = cuda::Exp2(maximum[h] - ShiftOf(largest));
    sum[h] *= own;
#pragma unroll
    for (int offset = Rows::kLanes; offset < 32; offset *= 2) sum[h] += __shfl_xor_sync(kAllLanes, sum[h], offset);
#pragma unroll
    for (int i = 0; i < Value::kValues; ++i) {
      o[h][i] *= own;
#pragma unroll
      for (int offset = Rows::kLanes; offset < 32; offset *= 2) o[h][i] += __shfl_xor_sync(kAllLanes, o[h][i], offset);
      if (team == 0) warp_o[warp][h][Value::Component(place, i)] = o[h][i];
    }
    if (lane == 0) {
      warp_maximum[warp][h] = largest;
      warp_sum[warp][h] = sum[h];
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < heads * p.value_dim; i += kSelectionWarps * 32) {
    const int h = i / p.value_dim, d = i - h * p.value_dim;
    float largest = kNegativeInfinity, total = 0, numerator = 0;
#pragma unroll
    for (int w = 0; w < kSelectionWarps; ++w) largest = fmaxf(largest, warp_maximum[w][h]);
#pragma unroll
    for (int w = 0; w < kSelectionWarps; ++w) {
      const float share = cuda::Exp2(warp_maximum[w][h] - ShiftOf(largest));
      total += warp_sum[w][h] * share;
      numerator += warp_o[w][h][d] * share;
    }
    const int head = kv_head * p.x.group + first_head + h;
    if (p.stretches == 1) {
      StoreComponent<T>(p, sequence, head, d, numerator, largest, total);
      continue;
    }
    const int64_t at = (int64_t{sequence} * p.x.num_kv_heads * p.x.group + head) * p.stretches + stretch;
    p.part_o[at * p.value_dim + d] = numerator;
    if (d == 0) p.part_sum[at] = make_float2(largest, total);
  }
}

// One block per query head, one thread per component.
template <typename T>
__global__ void __launch_bounds__(kMaxSelectionValueDim)
    MergeSelectionKernel(const __grid_constant__ WithSinks<SelectionParams> p) {
  const int64_t row = blockIdx.x;
  const int heads = p.x.num_kv_heads * p.x.group, d = static_cast<int>(threadIdx.x);
  const float2* const sums = p.part_sum + row * p.stretches;
  float largest = kNegativeInfinity, total = 0, numerator = 0;
  for (int part = 0; part < p.stretches; ++part) largest = fmaxf(largest, sums[part].x);
  for (int part = 0; part < p.stretches; ++part) {
    const float share = cuda::Exp2(sums[part].x - ShiftOf(largest));
    total += sums[part].y * share;
    numerator += p.part_o[(row * p.stretches + part) * p.value_dim + d] * share;
  }
  StoreComponent<T>(p, static_cast<int>(row / heads), static_cast<int>(row % heads), d, numerator, largest, total);
}

template <typename Rows>
cudaError_t LaunchSelectionOf(const WithSinks<SelectionParams>& p, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(p.lists * p.head_blocks * p.stretches);
  constexpr unsigned kThreads = kSelectionWarps * 32;
  // The sizes that have 8 places for query heads (SelectionHeads).
  constexpr bool kWide = Rows::Key::kMax > kWideSelectionDim;
  switch (SelectionHeads(p.x.group, p.head_dim, p.value_dim)) {
    case 1:
      SelectionKernel<Rows, 1><<<blocks, kThreads, 0, stream>>>(p);
      break;
    case 4:
      SelectionKernel<Rows, 4><<<blocks, kThreads, 0, stream>>>(p);
      break;
    default:
      if constexpr (!kWide) SelectionKernel<Rows, 8><<<blocks, kThreads, 0, stream>>>(p);
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess || p.stretches == 1) return error;
  MergeSelectionKernel<typename Rows::Element>
      <<<static_cast<unsigned>(p.lists * p.x.group), static_cast<unsigned>(p.value_dim), 0, stream>>>(p);
  return cudaGetLastError();
}

template <typename T>
cudaError_t LaunchSelection(const WithSinks<SelectionParams>& p, cudaStream_t stream) {
  if constexpr (!std::is_same_v<T, float>) {
    if (RunsOnTiles(p.head_dim, p.value_dim, /*fp32=*/false)) {
      return p.head_dim == 64 ? LaunchSelectionTiles<T, 64>(p, stream) : LaunchSelectionTiles<T, 128>(p, stream);
    }
  }
  const int larger = p.head_dim > p.value_dim ? p.head_dim : p.value_dim;
  if constexpr (std::is_same_v<T, float>) {
    if (larger <= 64) return LaunchSelectionOf<SelectionRows<T, 16, 1, 1>>(p, stream);
    if (larger <= 128) return LaunchSelectionOf<SelectionRows<T, 32, 1, 1>>(p, stream);
    if (larger <= kWideSelectionDim) return LaunchSelectionOf<SelectionRows<T, 32, 2, 2>>(p, stream);
    return LaunchSelectionOf<SelectionRows<T, 32, 5, 4>>(p, stream);
  } else {
    if (larger <= 128) return LaunchSelectionOf<SelectionRows<T, 16, 1, 1>>(p, stream);
    if (larger <= kWideSelectionDim) return LaunchSelectionOf<SelectionRows<T, 32, 1, 1>>(p, stream);
    return LaunchSelectionOf<SelectionRows<T, 32, 3, 2>>(p, stream);
  }
}

}  // namespace headscope::kernels::decode
