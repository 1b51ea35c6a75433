// Dense decode: every block streams one span of K and V of one KV head and leaves (max, sum, sum of weighted V) per
// query head; a second launch merges the spans. The floor is the bytes of K and V: each warp keeps 16 tokens of both in
// flight, and the tensor cores do the arithmetic for all heads of the group at once, so that a group of 8 costs what a
// group of 1 does.
#pragma once

#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

struct DenseParams {
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;      // [batch, num_qo_heads], may be null
  float* partial;  // [batch, num_qo_heads, num_spans, head_dim + 2]: weighted V, max, sum
  int64_t q_batch, q_head, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch, o_head;
  int32_t num_kv_heads, group, seq_k, num_spans, span;  // span: tokens of a block, a multiple of 16
  float scale, soft_cap;
};

template <typename T, int D>
__global__ void __launch_bounds__(kThreads, 2) DenseSpanKernel(const DenseParams p) {
  __shared__ float merged[kWarps * 8][D + 2];
  const int64_t list = blockIdx.y;
  const int sequence = static_cast<int>(list / p.num_kv_heads), kv_head = static_cast<int>(list % p.num_kv_heads);
  const int warp = threadIdx.x / 32;
  const T* q = static_cast<const T*>(p.q) + sequence * p.q_batch + static_cast<int64_t>(kv_head) * p.group * p.q_head;
  const T* k = static_cast<const T*>(p.k) + sequence * p.k_batch + kv_head * p.k_head;
  const T* v = static_cast<const T*>(p.v) + sequence * p.v_batch + kv_head * p.v_head;
  const int begin = blockIdx.x * p.span, end = min(begin + p.span, p.seq_k);

  WarpAttention<T, D> attention;
  attention.query.Load(p.group, [&](int head, int component) { return ToFloat(q[head * p.q_head + component]); });
  attention.out.Clear();
  for (int base = begin + warp * 16; base < end; base += kWarps * 16) {
    attention.Step(k, p.k_row, v, p.v_row, p.scale, p.soft_cap, end - base,
                   [&](int t) { return min(base + t, end - 1); });
  }
  attention.Finish(p.group, merged + warp * 8);
  __syncthreads();
  for (int at = threadIdx.x; at < p.group * D; at += kThreads) {
    const int head = at / D, d = at % D;
    float best, sum;
    const float total = MergeWarps<D>(merged + head, 8, d, &best, &sum);
    float* to = p.partial + ((list * p.group + head) * p.num_spans + blockIdx.x) * (D + 2);
    to[d] = total;
    if (d == 0) {
      to[D] = best;
      to[D + 1] = sum;
    }
  }
  LetDependentsStart();
}

// One block of D threads per query head.
template <typename T, int D>
__global__ void __launch_bounds__(D) DenseMergeKernel(const DenseParams p) {
  WaitForPrevious();
  const int64_t head = blockIdx.x;  // batch * num_qo_heads
  const int num_qo_heads = p.num_kv_heads * p.group;
  const float* in = p.partial + head * p.num_spans * (D + 2);
  float best = kNegativeInfinity;
  for (int s = threadIdx.x % 32; s < p.num_spans; s += 32) best = fmaxf(best, in[s * (D + 2) + D]);
  best = WarpMax(best);
  float sum = 0, total = 0;
#pragma unroll 8
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
