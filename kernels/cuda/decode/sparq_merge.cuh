// SPDX-License-Identifier: Apache-2.0
// How the spans' lists of candidates become the exact top k of a KV head.
#pragma once

#include "decode/message.cuh"
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
requires(!SendsCandidates(kPath)) __device__ __forceinline__
    bool PublishSpan(const SpanView<kPath>& view, SelectedList list, int found) {
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

// Sends the span's `found` candidates and softmax as messages; a token's word is its number, inverted. True in the
// block of the KV head's last span, which merges them. It waits for blocks with lower numbers than its own alone. Ends
// with a barrier.
template <SparqPath kPath>
requires(SendsCandidates(kPath)) __device__ __forceinline__
    bool PublishSpan(const SpanView<kPath>& view, SelectedList list, int found) {
  const SparqParams& p = view.p;
  using Crew = CrewOf<kPath>;
  const int64_t base = (int64_t{view.list} * p.plan.num_spans + view.span) * p.plan.list_stride;
#pragma unroll 1
  for (int e = Crew::Thread(); e < p.plan.list_stride; e += Crew::kThreads) {
    WriteWords(p.candidate_key + base + e, WordOfKey(e < found ? list.key[e] : kNoToken));
    WriteWords(reinterpret_cast<uint32_t*>(p.candidate_token) + base + e,
               ~static_cast<uint32_t>(e < found ? list.index[e] : 0));
  }
  if (Crew::Warp() == Crew::kWarps - 1) {
    const float4 part = PartOfSpan(view, 0);
    if (Lane() == 0) {
      WriteWords(reinterpret_cast<uint4*>(SpanParts(view, view.span)),
                 {WordOf(part.x), WordOf(part.y), WordOf(part.z), WordOf(0)});
    }
  }
  Crew::Barrier();
  return view.span + 1 == p.plan.num_spans;
}

// An entry of a list, or four neighbouring ones, from shared memory if `is_shared`, else what other blocks left. What
// they sent is all ones while it has not arrived.
template <bool kSent, typename Value>
__device__ __forceinline__ void ReadEntry(const Value* shared, const Value* global, bool is_shared, Value* to) {
  if (is_shared) {
    *to = *shared;
  } else if constexpr (kSent) {
    *to = static_cast<Value>(~ReadWords(reinterpret_cast<const uint32_t*>(global)));
  } else {
    *to = __ldcg(global);
  }
}
template <bool kSent, typename Value>
__device__ __forceinline__ void ReadFour(const Value* shared, const Value* global, bool is_shared, Value* to) {
  uint4 four;
  if (is_shared) {
    four = *reinterpret_cast<const uint4*>(shared);
  } else if constexpr (kSent) {
    four = ReadWords(reinterpret_cast<const uint4*>(global));
    four = {~four.x, ~four.y, ~four.z, ~four.w};
  } else {
    four = __ldcg(reinterpret_cast<const uint4*>(global));
  }
  to[0] = static_cast<Value>(four.x);
  to[1] = static_cast<Value>(four.y);
  to[2] = static_cast<Value>(four.z);
  to[3] = static_cast<Value>(four.w);
}

// Keys of up to 4096 entries, dealt out evenly to the threads: `running` of the list in shared memory, then the KV
// head's candidates from `next` on, `entries` in all, each a multiple of 4; and of one query head their tokens. Waits
// for what is sent. Returns how many neighbours a thread has of each piece.
template <SparqPath kPath>
__device__ __forceinline__ int LoadCandidates(const SpanView<kPath>& view, SelectedList list, int running, int next,
                                              int entries, OfTokens<uint32_t, CrewOf<kPath>>& key,
                                              OfTokens<int, CrewOf<kPath>>& token) {
  using Crew = CrewOf<kPath>;
  constexpr bool kOneHead = SpanView<kPath>::kOneHead, kSent = SendsCandidates(kPath);
  const int64_t from = int64_t{view.list} * view.p.plan.num_spans * view.p.plan.list_stride + next - running;
  uint32_t* const from_key = view.p.candidate_key + from;
  int32_t* const from_token = view.p.candidate_token + from;
  const int pieces = entries > kSpanTokens / 2 ? Crew::kPieces : Crew::kPieces / 2;
  int neighbours = (entries + pieces * Crew::kThreads - 1) / (pieces * Crew::kThreads);
  if (neighbours > 2) neighbours = (neighbours + 3) / 4 * 4;  // 16 bytes at once; few need all threads to vote
  // one(piece, i, e) for every entry e of the thread, its i-th of the piece, or four(piece, i, e) for e to e + 3.
  const auto for_each = [&](auto&& one, auto&& four) {
#pragma unroll
    for (int piece = 0; piece < Crew::kPieces; ++piece) {
      const int first = (piece * Crew::kThreads + Crew::Thread()) * neighbours;
      if (neighbours <= 2) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (i < neighbours && first + i < entries) one(piece, i, first + i);
        }
        continue;
      }
#pragma unroll
      for (int i = 0; i < kKeysOfPiece; i += 4) {
        if (i < neighbours && first + i < entries) four(piece, i, first + i);
      }
    }
  };
#pragma unroll
  for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) {
      key[piece][i] = kNoToken;
      if constexpr (kSent) token[piece][i] = 0;
    }
  }
  bool arrived = true;
  do {
    for_each(
        [&](int piece, int i, int e) {
          ReadEntry<kSent>(list.key + e, from_key + e, e < running, &key[piece][i]);
          if constexpr (kOneHead) ReadEntry<kSent>(list.index + e, from_token + e, e < running, &token[piece][i]);
        },
        [&](int piece, int i, int e) {
          ReadFour<kSent>(list.key + e, from_key + e, e < running, &key[piece][i]);
          if constexpr (kOneHead) ReadFour<kSent>(list.index + e, from_token + e, e < running, &token[piece][i]);
        });
    if constexpr (kSent) {
      uint32_t most = 0;
#pragma unroll
      for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
        for (int i = 0; i < kKeysOfPiece; ++i)
          most = max(most, max(key[piece][i], static_cast<uint32_t>(token[piece][i])));
      }
      arrived = most != ~0u;
    }
  } while (!arrived);
  if constexpr (kSent) {  // ready for the next call
    for_each(
        [&](int, int, int e) {
          if (e < running) return;
          WriteWords(from_key + e, 0);
          WriteWords(reinterpret_cast<uint32_t*>(from_token + e), 0);
        },
        [&](int, int, int e) {
          if (e < running) return;
          WriteWords(reinterpret_cast<uint4*>(from_key + e), {0, 0, 0, 0});
          WriteWords(reinterpret_cast<uint4*>(from_token + e), {0, 0, 0, 0});
        });
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
