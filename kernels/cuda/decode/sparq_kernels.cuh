// SPDX-License-Identifier: Apache-2.0
// SparQ in one launch, for groups of query heads and for whole rows of K. One query head's component rows have a kernel
// of their own (sparq_stream_kernel.cuh). See kernels/cuda_decode.h for the method; this page is about the machine.
//
// A block makes the approximate scores of one item, a span of tokens of a KV head, and keeps its best tokens; the block
// that finishes last of a KV head (a counter tells) makes of the spans' lists the exact top k and attends it. The bytes
// that must move are the chosen components of every key, so everything else has to be short or hide behind that stream:
// blocks stay, two a multiprocessor, and request the rows of their next item (sparq_tile_ring.cuh) while they select
// and attend. The softmaxed scores of a group are summed, which needs each head's normaliser over the *whole* sequence:
// the scores wait in shared memory until all spans of the KV head have left their (max, sum) in global memory. As one
// block's merging would then make its whole team wait (sparq_deal.cuh), teams merge and attend when they have scored
// all their items.
#pragma once

#include "decode/sparq_choose.cuh"
#include "decode/sparq_deal.cuh"
#include "decode/sparq_finish.cuh"
#include "decode/sparq_score.cuh"

namespace headscope::kernels::decode {

// A thread's 16 scores of one head out of shared memory; -inf from the span's end on.
template <SparqPath kPath>
__device__ __forceinline__ void LoadOwn(const SpanView<kPath>& view, int head, OfTokens<float, CrewOf<kPath>>& score) {
  using Crew = CrewOf<kPath>;
#pragma unroll
  for (int piece = 0; piece < Crew::kPieces; ++piece) {
    const int first = Crew::PlaceInSpan(piece, 0);
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
__device__ __forceinline__ void RankTokens(const SpanView<kPath>& view, OfTokens<float, CrewOf<kPath>>& rank) {
  using Crew = CrewOf<kPath>;
  auto& fixed = view.fixed;
  const int group = view.p.x.group;
#pragma unroll 1
  for (int head = 0; head < group; ++head) {
    OfTokens<float, Crew> score;
    LoadOwn(view, head, score);
    const float4 part = SoftmaxOfWarp<Crew>(score, view.choice.factor[head], view.eligible);
    if (Lane() == 0) fixed.part[head][Crew::Warp()] = part;
  }
  if (group == 1) {
    LoadOwn(view, 0, rank);
    return;
  }
  ExchangeSoftmax(view);
#pragma unroll
  for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) rank[piece][i] = 0;
  }
#pragma unroll 1
  for (int head = 0; head < group; ++head) {
    OfTokens<float, Crew> score;
    LoadOwn(view, head, score);
#pragma unroll
    for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
      for (int i = 0; i < kKeysOfPiece; ++i)
        rank[piece][i] += __expf(view.choice.factor[head] * score[piece][i] - fixed.whole[head].x);
    }
  }
}

// The scores of an item, in shared memory. On its way requests the next item's first rows, for which prepare() chooses
// the components.
template <typename T, int D, SparqPath kPath, typename Source, typename Prepare>
__device__ __forceinline__ void ScoreItem(const SpanView<kPath>& view, TileRing<T>& ring, const Source& next,
                                          bool has_next, const char* weight, Prepare&& prepare) {
  if constexpr (kPath == SparqPath::kFewHeads) {
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
  static_assert(!Streams(kPath));
  using Crew = CrewOf<kPath>;
  using View = SpanView<kPath>;
  __builtin_assume(threadIdx.x < kSparqThreads);  // the block is one crew
  extern __shared__ __align__(128) char shared[];
  auto& fixed = *reinterpret_cast<typename View::Shared*>(shared);
  const SparqPlan& plan = p.plan;
  const ChosenList chosen(plan, shared);
  const auto query = [&](int turn) { return reinterpret_cast<T*>(shared + plan.query + turn % 3 * plan.query_bytes); };
  const auto weight = [&](int turn) { return shared + plan.weight + (turn & 1) * plan.weight_bytes; };
  const auto request_query = [&](int item, int turn) {
    if (item < plan.items) RequestQuery<T, D>(p, Quotient(item, plan.by_spans), query(turn));
  };
  TileRing<T> ring(plan, shared);
  const int blocks = static_cast<int>(gridDim.x);

  // Turn 0 prepares the first item. In the end a team's block merges those of its KV heads that fall to it: their items
  // in its own sequence are `merge`, counted on from the last.
  int item = -1, next = static_cast<int>(blockIdx.x);
  int merge = next + next % plan.num_spans * blocks;
  request_query(next, 1);
#pragma unroll 1
  for (int turn = 0;; ++turn) {
    const auto choose_next = [&] {
      ChooseComponents<T, D>(p, fixed, fixed.choice[(turn + 1) & 1], query(turn + 1), weight(turn + 1));
    };
    TileSource<T> ahead(View(p, shared, min(next, plan.items - 1), turn + 1));
    if (next >= plan.items) ahead.tokens = 0;  // nothing is to be requested
    if (turn == 0) {
      WaitForCopies();  // the query
      choose_next();
      if constexpr (kPath == SparqPath::kFewHeads) ring.Begin(plan, ahead, p.kt_component);
      item = next;
      next += blocks;
      request_query(next, 2);
      continue;
    }

    const bool merging_only = item >= plan.items;
    if (merging_only && (plan.waits == 0 || merge >= plan.items)) break;
    const View view(p, shared, merging_only ? merge : item, turn);
    OfTokens<uint32_t, Crew> key;
    int found = 0;
    if (merging_only) {
      merge += plan.num_spans * blocks;
      RequestQuery<T, D>(p, view.list, query(turn));
      WaitForCount(p, view.list, 2 * plan.num_spans);
      if (threadIdx.x == 0) p.finished[view.list] = 0;  // ready for the next call
      if (threadIdx.x < p.x.group)
        fixed.whole[threadIdx.x].y = __ldcg(p.local_share + int64_t{view.list} * p.x.group + threadIdx.x);
    } else {
      int after = 0;
      if (threadIdx.x == 0) after = ItemAfter(p, next);  // arrives while the scores are made
      ScoreItem<T, D, kPath>(view, ring, ahead, next < plan.items, weight(turn), choose_next);
      if (threadIdx.x == 0) fixed.after = after;
      __syncthreads();
      OfTokens<float, Crew> rank;
      RankTokens(view, rank);
      KeysOfTokens(view, rank, key);
    }
    const bool attends = ChooseTokens(view, chosen, merging_only, key, &found, [&] {
      item = next;
      next = fixed.after;
      request_query(next, turn + 2);
    });
    if (!attends) continue;
    if (merging_only) WaitForCopies();  // the query; AttendList has a barrier
    AttendList<T, D>(view, chosen, found, reinterpret_cast<float*>(shared + plan.merged), query(turn));
  }
}

}  // namespace headscope::kernels::decode
