// SPDX-License-Identifier: Apache-2.0
// The warp that feeds a block's crews: it takes items in the order in which they fall to the block, chooses each one's
// components from the query and has the bulk copy engine bring their rows, one copy a row, as soon as stages are read.
// Nothing it waits for but a free stage is on the stream's way: the next item's number and query are asked for amid an
// item, and components are chosen while the ring is full.
#pragma once

#include <type_traits>

#include "decode/sparq_deal.cuh"
#include "decode/sparq_stream.cuh"

namespace headscope::kernels::decode {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// A lane's components of a query: neighbours.
template <typename T, int D>
struct QueryOfLane {
  static constexpr int kOwn = D / 32;
  using Word = std::conditional_t<kOwn == 4, uint2, uint32_t>;
  union {
    Word word;
    uint16_t bits[kOwn];
  };

  __device__ __forceinline__ void Load(const SparqParams& p, int item) {
    const DecodeOperands& x = p.x;
    const int list = Quotient(item, p.plan.by_spans), sequence = Quotient(list, p.plan.by_kv_heads);
    const int64_t head = list - sequence * x.num_kv_heads;
    word = __ldg(reinterpret_cast<const Word*>(static_cast<const T*>(x.q) + sequence * x.q_batch + head * x.q_head) +
                 Lane());
  }
  __device__ __forceinline__ float Component(int i) const { return ToFloat(__builtin_bit_cast(T, bits[i])); }
};

// Finds the r components with the largest |q| (the lower one first among equals) and the factor that takes a sum of
// products to a score. Ends with what every lane has written, for the other lanes to read.
template <typename T, int D>
__device__ __forceinline__ void ChooseByWarp(const SparqParams& p, const QueryOfLane<T, D>& query, StreamItem& to) {
  constexpr int kOwn = QueryOfLane<T, D>::kOwn, kIndexBits = 7;
  static_assert(D <= 1 << kIndexBits && D <= kMaxStreamDim);
  const int lane = Lane();
  // Without the sign a value's bits are in its order; with the component behind them no two are equal.
  uint32_t key[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i)
    key[i] = (query.bits[i] & 0x7fffu) << kIndexBits | static_cast<uint32_t>(D - 1 - (lane * kOwn + i));
  const uint32_t cut =
      Bisect(0, (1u << (15 + kIndexBits)) - 1, p.rank, p.rank, [&](uint32_t t) { return CountInWarp(key, t); });
  int place = 0;
  float top = 0, all = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    place += __popc(__ballot_sync(kAllLanes, key[i] >= cut) & ((1u << lane) - 1));
    const float size = fabsf(query.Component(i));
    all += size;
    if (key[i] >= cut) top += size;
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    if (key[i] < cut) continue;
    to.component[place] = lane * kOwn + i;
    to.weight[place] = query.Component(i);
    if (place == 0) {
#pragma unroll 1
      for (int pad = p.rank; pad < p.plan.rows; ++pad) {
        to.component[pad] = lane * kOwn + i;
        to.weight[pad] = 0;
      }
    }
    ++place;
  }
  top = WarpSum(top);
  all = WarpSum(all);
  reinterpret_cast<typename QueryOfLane<T, D>::Word*>(to.query)[lane] = query.word;
  // Equation 9: temperature sqrt(head_dim * |q_top|_1 / |q|_1); chosen components of zero give equal scores anyway.
  // The paper's attention scale is head_dim^-0.5; another scale of the model multiplies in.
  if (lane == 0) to.factor = top > 0 ? p.x.scale * sqrtf(all / top) : p.x.scale;
  __syncwarp();
}

// All of the block's items, and for every crew one that says that there are no more.
template <typename T, int D, SparqPath kPath>
__device__ __forceinline__ void Feed(const SparqParams& p, StreamShared& stream, char* ring) {
  const SparqPlan& plan = p.plan;
  const int lane = Lane();
  StreamPlace at;
  QueryOfLane<T, D> query;
  int item = static_cast<int>(blockIdx.x), number = 0;
  query.Load(p, item);
  const auto free_slot = [&]() -> StreamItem& {
    if (number >= kItemsAhead) Wait(&stream.scored[number % kItemsAhead], ItemParity(number) ^ 1);
    return stream.items[number % kItemsAhead];
  };
  const auto announce = [&](StreamItem& to, int what) {
    if (lane == 0) {
      to.item = what;
      to.first = at;
    }
    Arrive(&stream.ready[number % kItemsAhead]);
    ++number;
  };
  bool wrapped = false;  // every stage has been filled once
  // As late as the next item's number and then its query arrive in time.
  const int ask_at = plan.rows * 3 / 8 / kStageRows * kStageRows, load_at = plan.rows * 5 / 8 / kStageRows * kStageRows;
#pragma unroll 1
  while (item < plan.items) {
    StreamItem& to = free_slot();
    ChooseByWarp(p, query, to);
    announce(to, item);

    const int list = Quotient(item, plan.by_spans), sequence = Quotient(list, plan.by_kv_heads);
    const int first = (item - list * plan.num_spans) * plan.span_tokens;
    const T* keys =
        static_cast<const T*>(p.kt) + sequence * p.kt_batch + (list - sequence * p.x.num_kv_heads) * p.kt_head + first;
    const int bytes = (min(plan.span_tokens, p.x.seq_k - first) + 7) / 8 * 16;  // rows are padded to multiples of 8
    int asked = 0, next = 0;
#pragma unroll 1
    for (int row = 0; row < plan.rows; row += kStageRows) {
      if (row == ask_at && lane == 0) asked = NextItem(p);
      if (row == load_at) {
        next = __shfl_sync(kAllLanes, asked, 0);
        if (next < plan.items) query.Load(p, next);
      }
      if (wrapped) Wait(&stream.empty[at.stage], at.parity ^ 1);
      if (lane == 0) ArriveExpecting(&stream.full[at.stage], kStageRows * bytes);
      __syncwarp();
      if (lane < kStageRows) {
        CopyBulk(ring + at.stage * kStageBytes + lane * kSpanTokens * 2,
                 keys + to.component[row + lane] * p.kt_component, bytes, &stream.full[at.stage]);
      }
      __syncwarp();
      at.Advance(plan.stages);
      wrapped = wrapped || at.stage == 0;
    }
    item = next;
  }
#pragma unroll 1
  for (int crew = 0; crew < StreamCrews(kPath); ++crew) announce(free_slot(), plan.items);
}

#endif

}  // namespace headscope::kernels::decode
