// SparQ's choice of components: which r of a KV head's head_dim the approximate scores read, and what they weigh.
//
// It stands between a block's start and its first load, so it is short: one read of the query, then every component
// counts the larger ones. The query is used as it is; the temperature multiplies in where scores are exponentiated.
#pragma once

#include "decode/sparq_shared.cuh"

namespace headscope::kernels::decode {

// Finds the r components with the largest sum over the group of |q| (the lower component first among equals), the
// largest first, padded to a multiple of 16 by repeating one; and each head's factor. Leaves the group's rows of q in
// `query`, and the weights in fixed.weight (the first four heads; 0 for what pads) or, if the plan has tiles of heads,
// as B operands of m16n8k16: a column for each of 8 heads; a step's 16 rows are the chosen components in order or,
// where whole rows of K are read, all components, zero but for the chosen, in the order in which ScoreWholeRows takes
// them. Ends with a barrier.
template <typename T, int D>
__device__ __forceinline__ void ChooseComponents(const SpanView& view, T* query, uint2* weight) {
  static_assert(kSparqThreads % D == 0 && D <= kMaxRank && kMaxGroup * D <= kSparqThreads * 8);
  const SparqParams& p = view.p;
  const DecodeOperands& x = p.x;
  SparqShared& fixed = view.fixed;
  const int thread = threadIdx.x;
  if (thread * 8 < x.group * D) {
    const T* q = static_cast<const T*>(x.q) + view.list / x.num_kv_heads * x.q_batch +
                 (int64_t{view.list % x.num_kv_heads} * x.group + thread * 8 / D) * x.q_head;
    *reinterpret_cast<uint4*>(query + thread * 8) = *reinterpret_cast<const uint4*>(q + thread * 8 % D);
  }
  __syncthreads();
  if (thread < D) {
    float sum = 0;
#pragma unroll 4
    for (int head = 0; head < x.group; ++head) sum += fabsf(ToFloat(query[head * D + thread]));
    fixed.magnitude[thread] = sum;
  }
  __syncthreads();

  // Some neighbouring threads count for one component. Magnitudes are not negative: their bits are in their order.
  constexpr int kCounters = kSparqThreads / D;
  const int component = thread / kCounters;
  const uint32_t mine = __float_as_uint(fixed.magnitude[component]);
  int rank = 0;
#pragma unroll
  for (int four = thread % kCounters; four < D / 4; four += kCounters) {
    const uint4 other = reinterpret_cast<const uint4*>(fixed.magnitude)[four];
    const uint32_t larger = four < component / 4 ? mine : mine + 1;  // an equal one comes first if it is lower
    rank += (other.x >= larger) + (other.y >= larger) + (other.z >= larger) + (other.w >= larger);
  }
  if (thread % kCounters == 0) {
    for (int lower = component / 4 * 4; lower < component; ++lower)
      rank += __float_as_uint(fixed.magnitude[lower]) == mine;
  }
#pragma unroll
  for (int offset = 1; offset < kCounters; offset *= 2) rank += __shfl_xor_sync(kAllLanes, rank, offset);
  if (thread % kCounters == 0) {
    fixed.is_chosen[component] = rank < p.rank;
    const auto put = [&](int place, bool weighs) {
      fixed.component[place] = component;
#pragma unroll
      for (int head = 0; head < 4; ++head)
        fixed.weight[head][place] = weighs && head < x.group ? ToFloat(query[head * D + component]) : 0.0f;
    };
    if (rank < p.rank) put(rank, true);
    if (rank == 0) {
      for (int place = p.rank; place % 16 != 0; ++place) put(place, false);
    }
  }
  __syncthreads();

  for (int head = thread / 32; head < x.group; head += kSparqWarps) {
    float top = 0, all = 0;
#pragma unroll
    for (int d = thread % 32; d < D; d += 32) {
      const float size = fabsf(ToFloat(query[head * D + d]));
      all += size;
      if (fixed.is_chosen[d]) top += size;
    }
    top = WarpSum(top);
    all = WarpSum(all);
    // Equation 9: temperature sqrt(head_dim * |q_top|_1 / |q|_1); chosen components of zero give equal scores anyway.
    // The paper's attention scale is head_dim^-0.5; another scale of the model multiplies in.
    if (thread % 32 == 0) fixed.factor[head] = top > 0 ? x.scale * sqrtf(all / top) : x.scale;
  }
  const int steps = p.plan.steps;
  for (int i = thread; i < p.plan.head_tiles * steps * 32; i += kSparqThreads) {
    const int head = i / (steps * 32) * 8 + i % 32 / 4, step = i / 32 % steps, pair = i % 4;
    alignas(8) T value[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      // Rows of a step: 2 pair and the next, and 8 further on.
      const int row = step * 16 + 2 * pair + e % 2 + e / 2 * 8;
      const int d = p.kt != nullptr ? fixed.component[row] : step / 2 * 32 + pair * 8 + step % 2 * 4 + e;
      const bool live = head < x.group && (p.kt != nullptr ? row < p.rank : fixed.is_chosen[d]);
      Store(value + e, 0.0f);
      if (live) value[e] = query[head * D + d];
    }
    weight[i] = *reinterpret_cast<const uint2*>(value);
  }
  __syncthreads();
}

}  // namespace headscope::kernels::decode
