// How the spans' lists of candidates become the exact top k of a KV head.
#pragma once

#include "decode/sparq_softmax.cuh"

namespace headscope::kernels::decode {

// What a KV head's tokens are chosen in: in shared memory.
struct ChosenList {
  SelectedList list;
  int* source;  // of a group's merged list: the candidate that an entry is
  int* token;   // what is attended

  __device__ __forceinline__ ChosenList(const SparqPlan& plan, char* shared)
      : list{reinterpret_cast<uint32_t*>(shared + plan.list_key), reinterpret_cast<int*>(shared + plan.list_index)},
        source(reinterpret_cast<int*>(shared + plan.list_source)),
        token(reinterpret_cast<int*>(shared + plan.token)) {}
};

// Leaves the span's `found` candidates and softmax in global memory and counts the span. True, unless spans wait for
// each other, in the block that is the last of its KV head to do so; all spans' are then there to read. Ends with a
// barrier.
template <SparqPath kPath>
__device__ __forceinline__ bool PublishSpan(const SpanView<kPath>& view, SelectedList list, int found) {
  const SparqParams& p = view.p;
  using Crew = CrewOf<kPath>;
  const int group = view.Group();
  const int64_t base = (int64_t{view.list} * p.plan.num_spans + view.span) * p.plan.list_stride;
#pragma unroll 1
  for (int e = Crew::Thread(); e < p.plan.list_stride; e += Crew::kThreads) {
    p.candidate_key[base + e] = e < found ? list.key[e] : kNoToken;
    if (e >= found) continue;
    p.candidate_token[base + e] = view.kOneHead ? list.index[e] : view.first + list.index[e];
    if (group == 1) continue;
#pragma unroll 1
    for (int head = 0; head < group; ++head)
      p.candidate_value[(base + e) * group + head] = view.Probability(head, list.index[e]);
  }
  if (group == 1) {
    if (Crew::Warp() == Crew::kWarps - 1) {
      const float4 part = PartOfSpan(view, 0);
      if (Lane() == 0) *SpanParts(view, view.span) = part;
    }
  } else if (view.span == 0 && Crew::Thread() < group) {
    p.local_share[int64_t{view.list} * group + Crew::Thread()] = view.fixed.whole[Crew::Thread()].y;
  }
  Crew::Barrier();
  if (Crew::Thread() == 0) {
    const bool last = CountReleased(p.finished + view.list) + 1 == static_cast<uint32_t>(p.plan.num_spans);
    if (p.plan.waits == 0) {
      if (last) {
        p.finished[view.list] = 0;  // ready for the next call
        AcquireCounted();
      }
      view.fixed.is_last = last;
    }
  }
  Crew::Barrier();
  return p.plan.waits == 0 && view.fixed.is_last != 0;
}

// Four neighbouring entries of a list, from shared memory if it is there, else from what other blocks left.
template <typename Word>
__device__ __forceinline__ void ReadFour(const Word* shared, const Word* global, bool is_shared, Word* to) {
  static_assert(sizeof(Word) == 4);
  const uint4 four =
      is_shared ? *reinterpret_cast<const uint4*>(shared) : __ldcg(reinterpret_cast<const uint4*>(global));
  to[0] = static_cast<Word>(four.x);
  to[1] = static_cast<Word>(four.y);
  to[2] = static_cast<Word>(four.z);
  to[3] = static_cast<Word>(four.w);
}

// Keys of up to 4096 entries, dealt out evenly to the threads: `running` of the list in shared memory, then the KV
// head's candidates from `next` on, `entries` in all, each a multiple of 4; and of one query head their tokens. Returns
// how many neighbours a thread has of each piece.
template <SparqPath kPath>
__device__ __forceinline__ int LoadCandidates(const SpanView<kPath>& view, SelectedList list, int running, int next,
                                              int entries, OfTokens<uint32_t, CrewOf<kPath>>& key,
                                              OfTokens<int, CrewOf<kPath>>& token) {
  using Crew = CrewOf<kPath>;
  constexpr bool kOneHead = SpanView<kPath>::kOneHead;
  const int64_t from = int64_t{view.list} * view.p.plan.num_spans * view.p.plan.list_stride + next - running;
  const uint32_t* const from_key = view.p.candidate_key + from;
  const int32_t* const from_token = view.p.candidate_token + from;
  const int pieces = entries > kSpanTokens / 2 ? Crew::kPieces : Crew::kPieces / 2;
  int neighbours = (entries + pieces * Crew::kThreads - 1) / (pieces * Crew::kThreads);
  if (neighbours > 2) neighbours = (neighbours + 3) / 4 * 4;  // 16 bytes at once; few need all threads to vote
#pragma unroll
  for (int piece = 0; piece < Crew::kPieces; ++piece) {
    const int first = (piece * Crew::kThreads + Crew::Thread()) * neighbours;
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) key[piece][i] = kNoToken;
    if (neighbours <= 2) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int e = first + i;
        if (i >= neighbours || e >= entries) continue;
        key[piece][i] = e < running ? list.key[e] : __ldcg(from_key + e);
        if constexpr (kOneHead) token[piece][i] = e < running ? list.index[e] : __ldcg(from_token + e);
      }
      continue;
    }
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; i += 4) {
      const int e = first + i;
      if (i >= neighbours || e >= entries) continue;
      ReadFour(list.key + e, from_key + e, e < running, &key[piece][i]);
      if constexpr (kOneHead) ReadFour(list.index + e, from_token + e, e < running, &token[piece][i]);
    }
  }
  return neighbours;
}

// For groups, after a selection among loaded candidates: remembers which candidate each of the `found` entries is. Ends
// with a barrier.
template <typename Crew>
__device__ __forceinline__ void NoteSources(const ChosenList& chosen, int found, int running, int next) {
  int was[kMaxKept / Crew::kThreads];  // an entry came from the list before or from the candidates
#pragma unroll
  for (int i = 0; i < kMaxKept / Crew::kThreads; ++i) {
    const int e = i * Crew::kThreads + Crew::Thread();
    const int index = e < found ? chosen.list.index[e] : running;
    was[i] = index < running ? chosen.source[index] : index - running + next;
  }
  Crew::Barrier();
#pragma unroll
  for (int i = 0; i < kMaxKept / Crew::kThreads; ++i) {
    const int e = i * Crew::kThreads + Crew::Thread();
    if (e < found) chosen.source[e] = was[i];
  }
  Crew::Barrier();
}

}  // namespace headscope::kernels::decode
