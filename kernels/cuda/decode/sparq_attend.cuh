// Attention on SparQ's chosen tokens and the local window, by one block per KV head.
#pragma once

#include "decode/sparq_softmax.cuh"
#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// The probability that the kept tokens have together, into fixed.alpha: by one warp per head. For one query head a
// token's probability follows from its key; for groups it is computed from the scores (value == null) or was, by the
// block that had them.
template <SparqPath kPath>
__device__ __forceinline__ void SumShares(const SpanView& view, SelectedList list, const int* source, int chosen,
                                          const float* value) {
  SparqShared& fixed = view.fixed;
  const int group = GroupOf<kPath>(view.p);
#pragma unroll 1
  for (int head = CrewWarp(); head < group; head += kSparqWarps) {
    const float2 whole = fixed.whole[head];
    float sum = 0;
#pragma unroll 1
    for (int i = Lane(); i < chosen; i += 32) {
      if (group == 1) {
        sum += __expf(view.choice.factor[0] * FromOrderKey(list.key[i]) - whole.x);
      } else if (value == nullptr) {
        sum += view.Probability(head, list.index[i]);
      } else {
        sum += __ldcg(value + int64_t{source[i]} * group + head);
      }
    }
    sum = WarpSum(sum) + whole.y;
    if (Lane() == 0) fixed.alpha[head] = sum > 1 ? 1.0f : sum;  // rounding may lift it above 1; NaN stays
  }
}

// Attends `token`, `kept` slots in shared memory, and writes the output row of every query head of the group, 8 heads
// at a time. meanwhile() runs once, by a warp that has its first rows. Begins after a barrier, ends with one.
template <typename T, int D, SparqPath kPath, typename Meanwhile>
__device__ __forceinline__ void AttendTokens(const SpanView& view, float* merged, const T* query, const int* token,
                                             int kept, Meanwhile&& meanwhile) {
  static_assert(kSparqThreads % D == 0);
  const SparqParams& p = view.p;
  const DecodeOperands& x = p.x;
  const int group = GroupOf<kPath>(p), warp = CrewWarp(), d = CrewThread() % D;
  const T* k = static_cast<const T*>(x.k) + view.Sequence() * x.k_batch + view.KvHead() * x.k_head;
  const T* v = static_cast<const T*>(x.v) + view.Sequence() * x.v_batch + view.KvHead() * x.v_head;
  float mean = 0;
  if (p.mean_value != nullptr) mean = __ldg(p.mean_value + int64_t{view.list} * D + d);
#pragma unroll 1
  for (int first = 0; first < group; first += kMaxDenseGroup) {
    const int heads = min(kMaxDenseGroup, group - first);
    WarpAttention<T, D, SharedQuery<T, D>, GatheredTile<T, D>> attention{{query + first * D, heads}};
    GatheredTile<T, D> tile;
    int base = warp * 16;
    const auto row = [&](int t) { return int64_t{token[min(base + t, kept - 1)]}; };
    if (base < kept) {
      tile.LoadKeys(k, x.k_row, row);
      tile.LoadValues(v, x.v_row, row);
      const uint2 weights = attention.template Weigh<true>(tile, x.scale, 0.0f, kept - base);
      attention.out.Clear();  // not before: its registers are the keys'
      tile.Accumulate(attention.out, weights.x, weights.y);
    } else {
      attention.out.Clear();
    }
    // Beside an output there are registers for keys or values, not for both.
#pragma unroll 1
    for (base += kSparqWarps * 16; base < kept; base += kSparqWarps * 16) {
      tile.LoadKeys(k, x.k_row, row);
      const uint2 weights = attention.Weigh(tile, x.scale, 0.0f, kept - base);
      tile.LoadValues(v, x.v_row, row);
      tile.Accumulate(attention.out, weights.x, weights.y);
    }
    if (first == 0) meanwhile();  // not with rows under way, which take the registers
    attention.Finish(heads, reinterpret_cast<float(*)[D + 2]>(merged + warp * heads * (D + 2)));
    CrewBarrier();
#pragma unroll 1
    for (int at = CrewThread(); at < heads * D; at += kSparqThreads) {
      const int h = at / D;
      float best, sum;
      float result = MergeWarps<D, kSparqWarps>(merged + h * (D + 2), heads * (D + 2), d, &best, &sum) / sum;
      const float alpha = view.fixed.alpha[first + h];
      if (p.mean_value != nullptr) result = alpha * result + (1 - alpha) * mean;
      // A NaN among the keys that were scored leaves a group nothing to choose by: what was attended is arbitrary.
      if (isnan(alpha)) result = alpha;
      const int64_t head = int64_t{view.KvHead()} * group + first + h;
      Store(static_cast<T*>(x.o) + view.Sequence() * x.o_batch + head * x.o_head + d, result);
    }
    CrewBarrier();
  }
}

}  // namespace headscope::kernels::decode
