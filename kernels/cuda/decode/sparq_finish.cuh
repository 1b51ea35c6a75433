// SPDX-License-Identifier: Apache-2.0
// What a crew does with the scores of an item: it keeps its best tokens and, when it is the one to do so, makes of all
// spans' lists the exact top k of the KV head and attends it.
#pragma once

#include "decode/sparq_attend.cuh"
#include "decode/sparq_merge.cuh"

namespace headscope::kernels::decode {

// The keys by which a thread's tokens of the span are chosen: in the order of `rank`, none in the local window.
template <SparqPath kPath>
__device__ __forceinline__ void KeysOfTokens(const SpanView<kPath>& view, const OfTokens<float, CrewOf<kPath>>& rank,
                                             OfTokens<uint32_t, CrewOf<kPath>>& key) {
  using Crew = CrewOf<kPath>;
#pragma unroll
  for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i)
      key[piece][i] = i < view.eligible - Crew::PlaceInSpan(piece, 0) ? OrderKey(rank[piece][i]) : kNoToken;
  }
}

// Chooses the best tokens of `key` and leaves them for the KV head's merge, unless `merging_only`; then, in the crew
// that is the last of its KV head to do so or when merging only, the best of all spans' candidates, as many at a time
// as the threads hold keys. between() runs once in between. Whether the crew is to attend what it `found`.
template <SparqPath kPath, typename Between>
__device__ __forceinline__ bool ChooseTokens(const SpanView<kPath>& view, const ChosenList& chosen, bool merging_only,
                                             OfTokens<uint32_t, CrewOf<kPath>>& key, int* found, Between&& between) {
  using Crew = CrewOf<kPath>;
  const SparqPlan& plan = view.p.plan;
  const int total = plan.num_spans * plan.list_stride;
  int neighbours = kKeysOfPiece, running = 0, read = 0;  // candidates: in the list, and read
  bool merging = merging_only;
  constexpr bool kOneHead = SpanView<kPath>::kOneHead;
  OfTokens<int, Crew> token;  // for one query head, whose lists need no more of a candidate
  if constexpr (kOneHead) {
#pragma unroll
    for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
      for (int i = 0; i < kKeysOfPiece; ++i) token[piece][i] = view.first + Crew::PlaceInSpan(piece, i);
    }
  }
  const auto index_of = [&](int piece, int i) {
    if constexpr (kOneHead) return token[piece][i];
    return (piece * Crew::kThreads + Crew::Thread()) * neighbours + i;
  };
#pragma unroll 1
  for (bool loaded = !merging_only;; loaded = true) {
    if (loaded) {
      const int room = merging || view.alone ? plan.selected : plan.list_stride;
      *found = SelectLargest<Crew>(key, index_of, plan.selected, room, view.fixed.select, view.fixed.short_list,
                                   chosen.list);
      if (merging) {
        const int entries = min(kSpanTokens, running + total - read);
        if constexpr (!kOneHead) NoteSources<Crew>(chosen, *found, running, read);
        read += entries - running;
        running = (*found + 3) / 4 * 4;
      } else {
        between();
        if (view.alone) return true;
        if (!PublishSpan(view, chosen.list, *found)) return false;
        merging = true;
      }
      if (read >= total) return true;
      if (running > 0) {
        if (*found + Crew::Thread() < running) chosen.list.key[*found + Crew::Thread()] = kNoToken;
        Crew::Barrier();
      }
    }
    neighbours = LoadCandidates(view, chosen.list, running, read, min(kSpanTokens, running + total - read), key, token);
    // The other spans' softmax comes in the same trip to memory.
    if (kOneHead && read == 0 && Crew::Warp() == Crew::kWarps - 1) SetWhole(view, 0, PartOfSequence(view, 0));
  }
}

// Attends the `found` tokens of a KV head's chosen list, with the local window, and writes its outputs. The list holds
// places in the one span or, with several, merged candidates. For one query head it finds the whole softmax first.
template <typename T, int D, SparqPath kPath>
__device__ __forceinline__ void AttendList(const SpanView<kPath>& view, const ChosenList& chosen, int found,
                                           float* merged, const T* query) {
  const SparqParams& p = view.p;
  using Crew = CrewOf<kPath>;
  const int group = view.Group(), kept = p.plan.selected + p.plan.local, oldest = p.x.seq_k - p.plan.local;
  const int64_t candidates = int64_t{view.list} * p.plan.num_spans * p.plan.list_stride;
  const bool came_with_candidates = view.kOneHead && !view.alone && p.plan.selected > 0;
  if (group == 1 && !came_with_candidates && Crew::Warp() == Crew::kWarps - 1)
    SetWhole(view, 0, view.alone ? PartOfSpan(view, 0) : PartOfSequence(view, 0));
  const auto sum_shares = [&] {
    SumShares(view, chosen.list, chosen.source, found, view.alone ? nullptr : p.candidate_value + candidates * group);
  };
  const bool at_once = view.alone && group > 1;  // from scores whose place the results take
  if (at_once) sum_shares();
#pragma unroll 1
  for (int e = Crew::Thread(); e < kept; e += Crew::kThreads) {
    chosen.token[e] = e >= found                    ? oldest + e - found
                      : view.alone || view.kOneHead ? chosen.list.index[e]
                                                    : __ldcg(p.candidate_token + candidates + chosen.source[e]);
  }
  Crew::Barrier();
  AttendTokens<T, D>(view, merged, query, chosen.token, kept, [&] {
    if (!at_once) sum_shares();
    if (p.chosen == nullptr) return;
#pragma unroll 1
    for (int e = Crew::Thread(); e < kept; e += Crew::kThreads)
      p.chosen[int64_t{view.list} * p.num_tokens + e] = chosen.token[e];
  });
}

}  // namespace headscope::kernels::decode
