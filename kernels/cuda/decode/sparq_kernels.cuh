// SparQ in one launch. See kernels/cuda_decode.h for the method; this page is about the machine.
//
// A block makes the approximate scores of one item, a span of tokens of a KV head, and keeps its best tokens; the block
// that finishes last of a KV head (a counter tells) makes of the spans' lists the exact top k and attends it. The bytes
// that must move are the chosen components of every key, so everything else has to be short or hide behind that stream:
// blocks stay, two a multiprocessor, and request the rows of their next item (sparq_ring.cuh, sparq_tile_ring.cuh)
// while they select and attend. With one query head the scores never leave the registers. For a group of query heads
// the softmaxed scores are summed, which needs each head's normaliser over the *whole* sequence: the scores wait in
// shared memory until all spans of the KV head have left their (max, sum) in global memory. As one block's merging
// would then make its whole team wait (sparq_deal.cuh), teams merge and attend when they have scored all their items.
#pragma once

#include <type_traits>

#include "decode/sparq_attend.cuh"
#include "decode/sparq_choose.cuh"
#include "decode/sparq_deal.cuh"
#include "decode/sparq_merge.cuh"
#include "decode/sparq_score.cuh"

namespace headscope::kernels::decode {

// A thread's 16 scores of one head out of shared memory; -inf from the span's end on.
__device__ __forceinline__ void LoadOwn(const SpanView& view, int head, float (&score)[2][8]) {
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    const int first = PlaceInSpan(piece, 0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float4 x = make_float4(kNegativeInfinity, kNegativeInfinity, kNegativeInfinity, kNegativeInfinity);
      if (first < view.tokens) x = *reinterpret_cast<const float4*>(view.Row(head) + first + half * 4);
      score[piece][half * 4] = x.x;
      score[piece][half * 4 + 1] = x.y;
      score[piece][half * 4 + 2] = x.z;
      score[piece][half * 4 + 3] = x.w;
    }
  }
}

// The softmax of the span, and what each of a thread's tokens is ranked by: the score or, for a group, the sum of the
// heads' probabilities.
template <SparqPath kPath>
__device__ __forceinline__ void RankTokens(const SpanView& view, float (&rank)[2][8]) {
  SparqShared& fixed = view.fixed;
  const int group = GroupOf<kPath>(view.p), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if constexpr (kPath == SparqPath::kOneHead) {
    const float4 part = SoftmaxOfWarp(rank, view.choice.factor[0], view.eligible);
    if (lane == 0) fixed.part[0][warp] = part;
  } else {
#pragma unroll 1
    for (int head = 0; head < group; ++head) {
      float score[2][8];
      LoadOwn(view, head, score);
      const float4 part = SoftmaxOfWarp(score, view.choice.factor[head], view.eligible);
      if (lane == 0) fixed.part[head][warp] = part;
    }
    if (group == 1) {
      LoadOwn(view, 0, rank);
      return;
    }
    ExchangeSoftmax(view);
#pragma unroll
    for (int i = 0; i < 8; ++i) rank[0][i] = rank[1][i] = 0;
#pragma unroll 1
    for (int head = 0; head < group; ++head) {
      float score[2][8];
      LoadOwn(view, head, score);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        rank[0][i] += __expf(view.choice.factor[head] * score[0][i] - fixed.whole[head].x);
        rank[1][i] += __expf(view.choice.factor[head] * score[1][i] - fixed.whole[head].x);
      }
    }
  }
}

// Attends the `found` tokens of a KV head's chosen list, with the local window, and writes its outputs. The list holds
// places in the one span or, with several, merged candidates. For one query head it finds the whole softmax first.
template <typename T, int D, SparqPath kPath>
__device__ __forceinline__ void AttendList(const SpanView& view, const ChosenList& chosen, int found, float* merged,
                                           const T* query) {
  const SparqParams& p = view.p;
  const int group = GroupOf<kPath>(p), kept = p.plan.selected + p.plan.local, oldest = p.x.seq_k - p.plan.local;
  const int64_t candidates = int64_t{view.list} * p.plan.num_spans * p.plan.list_stride;
  if (group == 1 && threadIdx.x / 32 == kSparqWarps - 1)
    SetWhole(view, 0, view.alone ? PartOfSpan(view, 0) : PartOfSequence(view, 0));
  const auto sum_shares = [&] {
    SumShares<kPath>(view, chosen.list, chosen.source, found,
                     view.alone ? nullptr : p.candidate_value + candidates * group);
  };
  const bool at_once = view.alone && group > 1;  // from scores whose place the results take
  if (at_once) sum_shares();
#pragma unroll 1
  for (int e = threadIdx.x; e < kept; e += kSparqThreads) {
    chosen.token[e] = e >= found   ? oldest + e - found
                      : view.alone ? chosen.list.index[e]
                                   : __ldcg(p.candidate_token + candidates + chosen.source[e]);
  }
  __syncthreads();
  AttendTokens<T, D, kPath>(view, merged, query, chosen.token, kept, [&] {
    if (!at_once) sum_shares();
    if (p.chosen == nullptr) return;
#pragma unroll 1
    for (int e = threadIdx.x; e < kept; e += kSparqThreads)
      p.chosen[int64_t{view.list} * p.num_tokens + e] = chosen.token[e];
  });
}

// The scores of an item, in `rank` or in shared memory. On its way requests the next item's first rows, for which
// prepare() chooses the components.
template <typename T, int D, SparqPath kPath, typename Ring, typename Prepare>
__device__ __forceinline__ void ScoreItem(const SpanView& view, Ring& ring, const typename Ring::Source& next,
                                          bool has_next, const char* weight, float (&rank)[2][8], Prepare&& prepare) {
  if constexpr (kPath == SparqPath::kOneHead) {
    ScoreOneHead<T>(view, ring, next, has_next, weight, rank, prepare);
  } else if constexpr (kPath == SparqPath::kFewHeads) {
    ScoreFewHeads<T>(view, ring, next, weight, prepare);
  } else {
    if (has_next) {
      WaitForCopies();  // the query
      prepare();
    }
    if (view.p.kt != nullptr) {
      ScoreComponentRows<T>(view, reinterpret_cast<const uint2*>(weight));
    } else {
      ScoreWholeRows<T, D>(view, reinterpret_cast<const uint2*>(weight));
    }
  }
}

template <typename T, int D, SparqPath kPath>
__global__ void __launch_bounds__(kSparqThreads, 2) SparqKernel(const __grid_constant__ SparqParams p) {
  extern __shared__ __align__(128) char shared[];
  auto& fixed = *reinterpret_cast<SparqShared*>(shared);
  const SparqPlan& plan = p.plan;
  const ChosenList chosen(plan, shared);
  const auto query = [&](int turn) { return reinterpret_cast<T*>(shared + plan.query + turn % 3 * plan.query_bytes); };
  const auto weight = [&](int turn) { return shared + plan.weight + (turn & 1) * plan.weight_bytes; };
  const auto request_query = [&](int item, int turn) {
    if (item < plan.items) RequestQuery<T, D, kPath>(p, Quotient(item, plan.by_spans), query(turn));
  };
  using Ring = std::conditional_t<kPath == SparqPath::kFewHeads, TileRing<T>, KeyRing<T>>;
  Ring ring(plan, shared);
  constexpr bool kTeams = kPath != SparqPath::kOneHead;
  const int blocks = static_cast<int>(gridDim.x), total = plan.num_spans * plan.list_stride;

  // Turn 0 prepares the first item. In the end a team's block merges those of its KV heads that fall to it: their items
  // in its own sequence are `merge`, counted on from the last.
  int item = -1, next = static_cast<int>(blockIdx.x);
  int merge = next + (kTeams ? next % plan.num_spans * blocks : 0);
  request_query(next, 1);
#pragma unroll 1
  for (int turn = 0;; ++turn) {
    const auto choose_next = [&] {
      ChooseComponents<T, D, kPath>(p, fixed, fixed.choice[(turn + 1) & 1], query(turn + 1), weight(turn + 1));
    };
    typename Ring::Source ahead(SpanView(p, shared, min(next, plan.items - 1), turn + 1));
    if constexpr (kPath == SparqPath::kFewHeads) {
      if (next >= plan.items) ahead.tokens = 0;  // this ring does not ask has_next
    }
    if (turn == 0) {
      WaitForCopies();  // the query
      choose_next();
      if constexpr (kPath != SparqPath::kManyHeads) ring.Begin(plan, ahead, p.kt_component);
      item = next;
      next += blocks;
      request_query(next, 2);
      continue;
    }

    const bool merging_only = kTeams && item >= plan.items;
    if (item >= plan.items && (!merging_only || plan.waits == 0 || merge >= plan.items)) break;
    const SpanView view(p, shared, merging_only ? merge : item, turn);
    uint32_t key[2][8];
    int neighbours = 8, running = 0, read = 0, found = 0;  // candidates: in the list, and read
    if (merging_only) {
      merge += plan.num_spans * blocks;
      RequestQuery<T, D, kPath>(p, view.list, query(turn));
      WaitForCount(p, view.list, 2 * plan.num_spans);
      if (threadIdx.x == 0) p.finished[view.list] = 0;  // ready for the next call
      if (threadIdx.x < p.x.group)
        fixed.whole[threadIdx.x].y = __ldcg(p.local_share + int64_t{view.list} * p.x.group + threadIdx.x);
    } else {
      int after = 0;
      if (threadIdx.x == 0) after = ItemAfter(p, next);  // arrives while the scores are made
      float rank[2][8];
      ScoreItem<T, D, kPath>(view, ring, ahead, next < plan.items, weight(turn), rank, choose_next);
      if (threadIdx.x == 0) fixed.after = after;
      if constexpr (kPath != SparqPath::kOneHead) __syncthreads();
      RankTokens<kPath>(view, rank);
#pragma unroll
      for (int piece = 0; piece < 2; ++piece) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
          key[piece][i] = i < view.eligible - PlaceInSpan(piece, 0) ? OrderKey(rank[piece][i]) : kNoToken;
      }
    }

    // The item's best tokens; then, in the KV head's last block or in its team's, the best of all spans' candidates, as
    // many at a time as the threads hold keys.
    bool merging = merging_only, is_done = false;
    for (bool loaded = !merging_only;; loaded = true) {
      if (loaded) {
        const int room = merging || view.alone ? plan.selected : plan.list_stride;
        found = SelectLargest(key, neighbours, plan.selected, room, fixed.select, fixed.short_list, chosen.list);
        if (merging) {
          const int entries = min(kSpanTokens, running + total - read);
          NoteSources(plan, chosen, found, running, read);
          read += entries - running;
          running = plan.list_stride;
        } else {
          item = next;
          next = fixed.after;
          request_query(next, turn + 2);
          is_done = !view.alone && !PublishSpan<kPath>(view, chosen.list, found);
          merging = true;
          if (is_done || view.alone) break;
        }
        if (read >= total) break;
      }
      neighbours = LoadCandidates(view, chosen.list, running, read, min(kSpanTokens, running + total - read), key);
    }
    if (is_done) continue;
    if (merging_only) WaitForCopies();  // the query; AttendList has a barrier
    AttendList<T, D, kPath>(view, chosen, found, reinterpret_cast<float*>(shared + plan.merged), query(turn));
  }
}

}  // namespace headscope::kernels::decode
