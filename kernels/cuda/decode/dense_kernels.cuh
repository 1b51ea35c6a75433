// Dense decode: every block streams one span of K and V of one KV head and leaves (max, sum, sum of weighted V) per query head; a second launch merges
// the spans. The floor is the bytes of K and V; a thread keeps kAhead rows of both in flight, and a group's query heads share each row.
#pragma once

#include "decode/decode_common.cuh"

namespace headscope::kernels::decode {

struct DenseParams {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;      // [batch, num_qo_heads], may be null
  float* partial;  // [batch, num_kv_heads, group, num_spans, head_dim + 2]: weighted V, max, sum
  int64_t q_batch, q_head, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch, o_head;
  int32_t num_kv_heads, seq_k, num_spans, span;  // span: tokens of a block
  float scale, soft_cap;
};

template <typename T, int D, int G>
__global__ void __launch_bounds__(kThreads) DenseSpanKernel(const DenseParams p) {
  constexpr int kLanes = D / 8;
  constexpr int kSlots = kThreads / kLanes;
  constexpr int kAhead = G >= 8 ? 2 : 4;
  __shared__ float partial[kSlots][D + 4];
  const int64_t list = blockIdx.y;
  const int sequence = static_cast<int>(list / p.num_kv_heads), kv_head = static_cast<int>(list % p.num_kv_heads);
  const int group_lane = threadIdx.x % kLanes, slot = threadIdx.x / kLanes;
  const T* q = static_cast<const T*>(p.q) + sequence * p.q_batch + static_cast<int64_t>(kv_head) * G * p.q_head;
  const T* k = static_cast<const T*>(p.k) + sequence * p.k_batch + kv_head * p.k_head + group_lane * 8;
  const T* v = static_cast<const T*>(p.v) + sequence * p.v_batch + kv_head * p.v_head + group_lane * 8;
  const int begin = blockIdx.x * p.span, end = min(begin + p.span, p.seq_k);

  float query[G][8], acc[G][8], row_max[G], row_sum[G];
#pragma unroll
  for (int g = 0; g < G; ++g) {
    float raw[8];
    Unpack(*reinterpret_cast<const uint4*>(q + g * p.q_head + group_lane * 8), raw, T());
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      query[g][i] = raw[i] * p.scale;
      acc[g][i] = 0;
    }
    row_max[g] = kNegativeInfinity;
    row_sum[g] = 0;
  }
  for (int base = begin; base < end; base += kSlots * kAhead) {
    uint4 k_raw[kAhead], v_raw[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int64_t token = min(base + a * kSlots + slot, end - 1);  // a row that does not count is read again and given no weight
      k_raw[a] = LoadStreaming(k + token * p.k_row);
      v_raw[a] = LoadStreaming(v + token * p.v_row);
    }
    float score[kAhead][G];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      float key[8];
      Unpack(k_raw[a], key, T());
#pragma unroll
      for (int g = 0; g < G; ++g) {
        float dot = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) dot += query[g][i] * key[i];
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, offset);
        if (p.soft_cap > 0) dot = p.soft_cap * tanhf(dot / p.soft_cap);
        score[a][g] = base + a * kSlots + slot < end ? dot : kNegativeInfinity;
      }
    }
#pragma unroll
    for (int g = 0; g < G; ++g) {
      float best = row_max[g];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) best = fmaxf(best, score[a][g]);
      const float anchor = best == kNegativeInfinity ? 0.0f : best;  // a slot without a token yet: exp(-inf - 0) is 0, not NaN
      const float rescale = __expf(row_max[g] - anchor);
      row_sum[g] *= rescale;
#pragma unroll
      for (int i = 0; i < 8; ++i) acc[g][i] *= rescale;
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        score[a][g] = __expf(score[a][g] - anchor);
        row_sum[g] += score[a][g];
      }
      row_max[g] = best;
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      float value[8];
      Unpack(v_raw[a], value, T());
#pragma unroll
      for (int g = 0; g < G; ++g) {
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[g][i] += score[a][g] * value[i];
      }
    }
  }
#pragma unroll
  for (int g = 0; g < G; ++g) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) partial[slot][group_lane * 8 + i] = acc[g][i];
    if (group_lane == 0) {
      partial[slot][D] = row_max[g];
      partial[slot][D + 1] = row_sum[g];
    }
    __syncthreads();
    if (threadIdx.x < D) {
      float best = kNegativeInfinity;
#pragma unroll
      for (int s = 0; s < kSlots; ++s) best = fmaxf(best, partial[s][D]);
      float sum = 0, total = 0;
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        const float factor = partial[s][D] == kNegativeInfinity ? 0.0f : __expf(partial[s][D] - best);
        sum += partial[s][D + 1] * factor;
        total += partial[s][threadIdx.x] * factor;
      }
      float* out = p.partial + (((list * G + g) * p.num_spans) + blockIdx.x) * (D + 2);
      out[threadIdx.x] = total;
      if (threadIdx.x == 0) {
        out[D] = best;
        out[D + 1] = sum;
      }
    }
  }
}

// One block of D threads per query head.
template <typename T, int D>
__global__ void __launch_bounds__(D) DenseMergeKernel(const DenseParams p, int group) {
  const int64_t head = blockIdx.x;  // batch * num_qo_heads
  const int num_qo_heads = p.num_kv_heads * group;
  const float* in = p.partial + head * p.num_spans * (D + 2);
  float best = kNegativeInfinity;
  for (int s = 0; s < p.num_spans; ++s) best = fmaxf(best, in[s * (D + 2) + D]);
  float sum = 0, total = 0;
  for (int s = 0; s < p.num_spans; ++s) {
    const float factor = __expf(in[s * (D + 2) + D] - best);
    sum += in[s * (D + 2) + D + 1] * factor;
    total += in[s * (D + 2) + threadIdx.x] * factor;
  }
  T* o = static_cast<T*>(p.o) + (head / num_qo_heads) * p.o_batch + (head % num_qo_heads) * p.o_head;
  Store(o + threadIdx.x, total / sum);
  if (p.lse != nullptr && threadIdx.x == 0) p.lse[head] = best + logf(sum);
}

}  // namespace headscope::kernels::decode
