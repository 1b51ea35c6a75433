// SPDX-License-Identifier: Apache-2.0
// Attention on SparQ's chosen tokens and the local window, by one crew per KV head.
#pragma once

#include "decode/sparq_softmax.cuh"
#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// The probability that the kept tokens have together, into fixed.alpha: by one warp per head. For one query head a
// token's probability follows from its key; for groups it is computed from the scores (value == null) or was, by the
// block that had them.
template <SparqPath kPath>
__device__ __forceinline__ void SumShares(const SpanView<kPath>& view, SelectedList list, const int* source, int chosen,
                                          const float* value) {
  using Crew = CrewOf<kPath>;
  auto& fixed = view.fixed;
  const int group = view.Group();
#pragma unroll 1
  for (int head = Crew::Warp(); head < group; head += Crew::kWarps) {
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
// at a time. Each warp calls meanwhile() once, behind its first rows. Begins after a barrier, ends with one.
template <typename T, int D, SparqPath kPath, typename Meanwhile>
__device__ __forceinline__ void AttendTokens(const SpanView<kPath>& view, float* merged, const T* query,
                                             const int* token, int kept, Meanwhile&& meanwhile) {
  using Crew = CrewOf<kPath>;
  static_assert(Crew::kThreads % D == 0);
  const SparqParams& p = view.p;
  const DecodeOperands& x = p.x;
  const int group = view.Group(), warp = Crew::Warp(), d = Crew::Thread() % D;
  const T* k = static_cast<const T*>(x.k) + view.Sequence() * x.k_batch + view.KvHead() * x.k_head;
  const T* v = static_cast<const T*>(x.v) + view.Sequence() * x.v_batch + view.KvHead() * x.v_head;
  float mean = 0;
  if (p.mean_value != nullptr) mean = __ldg(p.mean_value + int64_t{view.list} * D + d);
#pragma unroll 1
  for (int first = 0; first < group; first += kMaxDenseGroup) {
    const int heads = min(kMaxDenseGroup, group - first);
    WarpAttention<T, D, SharedQuery<T, D>, GatheredTile<T, D>> attention{{query + first * D, heads}};
    // At first as many tiles as the crew's registers hold, 128 tokens.
    constexpr int kTiles = 8 / Crew::kWarps;
    GatheredTile<T, D> tile[kTiles];
    int base = warp * kTiles * 16;
    const auto row_of = [&](int first_token) {
      return [=](int t) { return int64_t{token[min(first_token + t, kept - 1)]}; };
    };
    if (base < kept) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) tile[t].LoadKeys(k, x.k_row, row_of(base + t * 16));
      const auto load_values = [&](int t) { tile[t].LoadValues(v, x.v_row, row_of(base + t * 16)); };
      load_values(0);
      uint2 weights[kTiles];
      attention.WeighFirst(tile, x.scale, kept - base, weights, [&](int t) {
        if (t + 1 < kTiles) load_values(t + 1);  // in the place of the keys
      });
      attention.out.Clear();  // not before: its registers are the keys'
#pragma unroll
      for (int far = 0; far < D / 64; ++far) {
#pragma unroll
        for (int t = 0; t < kTiles; ++t) tile[t].AccumulatePart(attention.out, far, weights[t].x, weights[t].y);
      }
    } else {
      attention.out.Clear();
    }
    // Beside an output there are registers for keys or values, not for both.
#pragma unroll 1
    for (base = kTiles * Crew::kWarps * 16 + warp * 16; base < kept; base += Crew::kWarps * 16) {
      tile[0].LoadKeys(k, x.k_row, row_of(base));
      const uint2 weights = attention.Weigh(tile[0], x.scale, 0.0f, kept - base);
      tile[0].LoadValues(v, x.v_row, row_of(base));
      tile[0].Accumulate(attention.out, weights.x, weights.y);
    }
    if (first == 0) meanwhile();  // not with rows under way, which take the registers
    attention.Finish(heads, reinterpret_cast<float(*)[D + 2]>(merged + warp * heads * (D + 2)));
    Crew::Barrier();
#pragma unroll 1
    for (int at = Crew::Thread(); at < heads * D; at += Crew::kThreads) {
      const int h = at / D;
      float best, sum;
      float result = MergeWarps<D, Crew::kWarps>(merged + h * (D + 2), heads * (D + 2), d, &best, &sum) / sum;
      const float alpha = view.fixed.alpha[first + h];
      if (p.mean_value != nullptr) result = alpha * result + (1 - alpha) * mean;
      // A NaN among the keys that were scored leaves a group nothing to choose by: what was attended is arbitrary.
      if (isnan(alpha)) result = alpha;
      const int64_t head = int64_t{view.KvHead()} * group + first + h;
      Store(static_cast<T*>(x.o) + view.Sequence() * x.o_batch + head * x.o_head + d, result);
    }
    Crew::Barrier();
  }
}

}  // namespace headscope::kernels::decode
