// SPDX-License-Identifier: Apache-2.0
// SparQ's choice of components: which r of a KV head's head_dim the approximate scores read, and what they weigh.
//
// A block chooses for its next item while it scores this one, so that the rows are known when the ring
// (sparq_tile_ring.cuh) comes to them. Every component counts the larger ones. The query is used as it is; the
// temperature multiplies in where scores are exponentiated.
#pragma once

#include "decode/sparq_shared.cuh"
#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

// Requests the rows of q of a KV head's group.
template <typename T, int D>
__device__ __forceinline__ void RequestQuery(const SparqParams& p, int list, T* query) {
  static_assert(kMaxGroup * D <= kSparqThreads * 8);
  const DecodeOperands& x = p.x;
  const int thread = threadIdx.x, group = x.group;
  if (thread * 8 >= group * D) return;
  const int sequence = Quotient(list, p.plan.by_kv_heads), kv_head = list - sequence * x.num_kv_heads;
  const T* q =
      static_cast<const T*>(x.q) + sequence * x.q_batch + (int64_t{kv_head} * group + thread * 8 / D) * x.q_head;
  CopyAsync(query + thread * 8, q + thread * 8 % D);
}

// Finds the r components with the largest sum over the group of |q| (the lower component first among equals), the
// largest first, padded to a multiple of 16 by repeating one; and each head's factor. `query` has arrived, each
// thread's own part. Leaves the weights in `weight`: B operands of m16n8k16, a column for each of 8 heads; a step's 16
// rows are the chosen components in order or, where whole rows of K are read, all components, zero but for the chosen,
// in the order in which ScoreWholeRows takes them. Begins and ends with a barrier.
template <typename T, int D, SparqPath kPath>
__device__ __forceinline__ void ChooseComponents(const SparqParams& p, SparqShared<kPath>& fixed,
                                                 typename SparqShared<kPath>::Choice& choice, const T* query,
                                                 char* weight) {
  static_assert(kSparqThreads % D == 0 && D <= kMaxRank);
  const int thread = threadIdx.x, group = p.x.group;
  __syncthreads();
  if (thread < D) {
    float sum = 0;
#pragma unroll 1
    for (int head = 0; head < group; ++head) sum += fabsf(ToFloat(query[head * D + thread]));
    fixed.magnitude[thread] = sum;
  }
  __syncthreads();

  // Some neighbouring threads count for one component. Magnitudes are not negative: their bits are in their order.
  constexpr int kCounters = kSparqThreads / D;
  const int component = thread / kCounters;
  const uint32_t mine = __float_as_uint(fixed.magnitude[component]);
  int rank = 0;
#pragma unroll 4
  for (int four = thread % kCounters; four < D / 4; four += kCounters) {
    const uint4 other = reinterpret_cast<const uint4*>(fixed.magnitude)[four];
    const uint32_t larger = four < component / 4 ? mine : mine + 1;  // an equal one comes first if it is lower
    rank += (other.x >= larger) + (other.y >= larger) + (other.z >= larger) + (other.w >= larger);
  }
  if (thread % kCounters == 0) {
#pragma unroll 1
    for (int lower = component / 4 * 4; lower < component; ++lower)
      rank += __float_as_uint(fixed.magnitude[lower]) == mine;
  }
#pragma unroll
  for (int offset = 1; offset < kCounters; offset *= 2) rank += __shfl_xor_sync(kAllLanes, rank, offset);
  if (thread % kCounters == 0) {
    fixed.is_chosen[component] = rank < p.rank;
    if (rank < p.rank) choice.component[rank] = component;
    if (rank == 0) {
#pragma unroll 1
      for (int place = p.rank; place % 16 != 0; ++place) choice.component[place] = component;
    }
  }
  __syncthreads();

#pragma unroll 1
  for (int head = thread / 32; head < group; head += kSparqWarps) {
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
    if (thread % 32 == 0) choice.factor[head] = top > 0 ? p.x.scale * sqrtf(all / top) : p.x.scale;
  }
  const int steps = p.plan.steps;
#pragma unroll 1
  for (int i = thread; i < p.plan.head_tiles * steps * 32; i += kSparqThreads) {
    const int head = i / (steps * 32) * 8 + i % 32 / 4, step = i / 32 % steps, pair = i % 4;
    alignas(8) T value[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      // Rows of a step: 2 pair and the next, and 8 further on.
      const int row = step * 16 + 2 * pair + e % 2 + e / 2 * 8;
      const int d = p.kt != nullptr ? choice.component[row] : step / 2 * 32 + pair * 8 + step % 2 * 4 + e;
      const bool live = head < group && (p.kt != nullptr ? row < p.rank : fixed.is_chosen[d]);
      Store(value + e, 0.0f);
      if (live) value[e] = query[head * D + d];
    }
    reinterpret_cast<uint2*>(weight)[i] = *reinterpret_cast<const uint2*>(value);
  }
  __syncthreads();
}

}  // namespace headscope::kernels::decode
