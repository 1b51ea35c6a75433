// Attention on SparQ's chosen tokens and the local window, by one block per KV head.
#pragma once

#include "decode/sparq_softmax.cuh"
#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// A KV head's rows in memory, and each warp's tile of 16 of them in shared memory.
template <typename T, int D>
struct AttendedRows {
  const SparqParams& p;
  const T *k, *v;
  SharedTile<T, D> tile;
  float* merged;  // the first warp's tile, which the warps' partial outputs take in the end
  static constexpr int kMergedStride = SharedTile<T, D>::kElements * sizeof(T) / sizeof(float);

  __device__ __forceinline__ AttendedRows(const SpanView& view, char* shared)
      : p(view.p),
        k(static_cast<const T*>(p.x.k) + view.list / p.x.num_kv_heads * p.x.k_batch +
          view.list % p.x.num_kv_heads * p.x.k_head),
        v(static_cast<const T*>(p.x.v) + view.list / p.x.num_kv_heads * p.x.v_batch +
          view.list % p.x.num_kv_heads * p.x.v_head),
        tile{reinterpret_cast<T*>(shared + p.plan.tile) + threadIdx.x / 32 * SharedTile<T, D>::kElements},
        merged(reinterpret_cast<float*>(shared + p.plan.tile)) {}

  // Requests the warp's 16 slots from `base` on; token(slot) for slots below `kept`, whose last is repeated.
  template <typename Token>
  __device__ __forceinline__ void Request(int base, int kept, Token&& token) const {
    tile.Request(k, p.x.k_row, v, p.x.v_row, [&](int t) { return int64_t{token(min(base + t, kept - 1))}; });
  }
};

// Whether the warp's first tile is of the local window alone, so that its rows are known from the start.
__device__ __forceinline__ bool TileIsLocal(const SparqPlan& plan) {
  const int first = static_cast<int>(threadIdx.x) / 32 * 16;
  return first >= plan.selected && first < plan.selected + plan.local;
}

// The probability that the kept tokens have together, into fixed.alpha: by one warp per head. For one query head a
// token's probability follows from its key; for groups it is computed from the scores (value == null) or was, by the
// block that had them.
__device__ __forceinline__ void SumShares(const SpanView& view, SelectedList list, const int* source, int chosen,
                                          const float* value) {
  SparqShared& fixed = view.fixed;
  const int group = view.p.x.group;
  for (int head = threadIdx.x / 32; head < group; head += kSparqWarps) {
    const float2 whole = fixed.whole[head];
    float sum = 0;
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < chosen; i += 32) {
      if (group == 1) {
        sum += __expf(fixed.factor[0] * FromOrderKey(list.key[i]) - whole.x);
      } else if (value == nullptr) {
        sum += view.Probability(head, list.index[i]);
      } else {
        sum += __ldcg(value + int64_t{source[i]} * group + head);
      }
    }
    sum = WarpSum(sum) + whole.y;
    if (threadIdx.x % 32 == 0) fixed.alpha[head] = fminf(sum, 1.0f);  // rounding may lift the sum above 1
  }
}

// Attends `token`, `kept` slots in shared memory, and writes the output row of every query head of the group, 8 heads
// at a time. while_waiting() runs once, with the first rows on their way. Begins after a barrier. requested: this
// warp's first rows are on their way.
template <typename T, int D, typename WhileWaiting>
__device__ __forceinline__ void AttendTokens(const SpanView& view, const AttendedRows<T, D>& rows, const T* query,
                                             const int* token, int kept, bool requested, WhileWaiting&& while_waiting) {
  const SparqParams& p = view.p;
  const DecodeOperands& x = p.x;
  const int warp = threadIdx.x / 32;
  for (int first = 0; first < x.group; first += kMaxDenseGroup) {
    const int heads = min(kMaxDenseGroup, x.group - first);
    WarpAttention<T, D, SharedQuery<T, D>> attention{{query + first * D, heads}};
    attention.out.Clear();
    for (int base = warp * 16; base < kept || (base < kSparqWarps * 16 && first == 0); base += kSparqWarps * 16) {
      if (base < kept && !requested) rows.Request(base, kept, [&](int slot) { return token[slot]; });
      requested = false;
      if (first == 0 && base < kSparqWarps * 16) {
        if (p.mean_value != nullptr && threadIdx.x < D)
          CopyAsync4(view.fixed.mean + threadIdx.x, p.mean_value + int64_t{view.list} * D + threadIdx.x);
        while_waiting();
      }
      asm volatile("cp.async.wait_all;" ::: "memory");
      __syncwarp();
      if (base < kept) attention.Step(rows.tile, x.scale, 0.0f, kept - base);
      __syncwarp();
    }
    attention.Finish(heads, reinterpret_cast<float(*)[D + 2]>(rows.tile.k));
    __syncthreads();
    for (int at = threadIdx.x; at < heads * D; at += kSparqThreads) {
      const int h = at / D, d = at % D;
      float best, sum;
      float result = MergeWarps<D, kSparqWarps>(rows.merged + h * (D + 2), rows.kMergedStride, d, &best, &sum) / sum;
      if (p.mean_value != nullptr) {
        const float alpha = view.fixed.alpha[first + h];
        result = alpha * result + (1 - alpha) * view.fixed.mean[d];
      }
      const int64_t head = int64_t{view.list % x.num_kv_heads} * x.group + first + h;
      Store(static_cast<T*>(x.o) + view.list / x.num_kv_heads * x.o_batch + head * x.o_head + d, result);
    }
    __syncthreads();
  }
}

}  // namespace headscope::kernels::decode
