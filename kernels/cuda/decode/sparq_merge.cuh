// How the spans' lists of candidates become the exact top k of a KV head.
#pragma once

#include "decode/sparq_softmax.cuh"

namespace headscope::kernels::decode {

// What a KV head's tokens are chosen in: in shared memory.
struct ChosenList {
  SelectedList list;
  int* source;  // of a merged list: the candidate that an entry is
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
__device__ __forceinline__ bool PublishSpan(const SpanView& view, SelectedList list, int found) {
  const SparqParams& p = view.p;
  const int group = GroupOf<kPath>(p);
  const int64_t base = (int64_t{view.list} * p.plan.num_spans + view.span) * p.plan.list_stride;
#pragma unroll 1
  for (int e = CrewThread(); e < p.plan.list_stride; e += kSparqThreads) {
    p.candidate_key[base + e] = e < found ? list.key[e] : kNoToken;
    if (e >= found) continue;
    p.candidate_token[base + e] = view.first + list.index[e];
    if (group == 1) continue;
#pragma unroll 1
    for (int head = 0; head < group; ++head)
      p.candidate_value[(base + e) * group + head] = view.Probability(head, list.index[e]);
  }
  if (group == 1) {
    if (CrewWarp() == kSparqWarps - 1) {
      const float4 part = PartOfSpan(view, 0);
      if (Lane() == 0) *SpanParts(view, view.span) = part;
    }
  } else if (view.span == 0 && CrewThread() < group) {
    p.local_share[int64_t{view.list} * group + CrewThread()] = view.fixed.whole[CrewThread()].y;
  }
  CrewBarrier();
  if (CrewThread() == 0) {
    const bool last = CountReleased(p.finished + view.list) + 1 == static_cast<uint32_t>(p.plan.num_spans);
    if (p.plan.waits == 0) {
      if (last) {
        p.finished[view.list] = 0;  // ready for the next call
        AcquireCounted();
      }
      view.fixed.is_last = last;
    }
  }
  CrewBarrier();
  return p.plan.waits == 0 && view.fixed.is_last != 0;
}

// Keys of up to 4096 entries, dealt out evenly to the threads: `running` of the list in shared memory, then the KV
// head's candidates from `next` on, `entries` in all. Returns how many neighbours a thread has of each piece.
__device__ __forceinline__ int LoadCandidates(const SpanView& view, SelectedList list, int running, int next,
                                              int entries, uint32_t (&key)[2][8]) {
  const SparqPlan& plan = view.p.plan;
  const uint32_t* from = view.p.candidate_key + int64_t{view.list} * plan.num_spans * plan.list_stride + next - running;
  const int pieces = entries > kSpanTokens / 2 ? 2 : 1;
  const int neighbours = (entries + pieces * kSparqThreads - 1) / (pieces * kSparqThreads);
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    const int first = (piece * kSparqThreads + CrewThread()) * neighbours;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int e = first + i;
      key[piece][i] = kNoToken;
      if (i < neighbours && e < entries) key[piece][i] = e < running ? list.key[e] : __ldcg(from + e);
    }
  }
  return neighbours;
}

// After a selection among loaded candidates: remembers which candidate each of the `found` entries is, and closes the
// list's gap up to list_stride. Ends with a barrier.
__device__ __forceinline__ void NoteSources(const SparqPlan& plan, const ChosenList& chosen, int found, int running,
                                            int next) {
  int was[kMaxKept / kSparqThreads];  // an entry came from the list before or from the candidates
#pragma unroll
  for (int i = 0; i < kMaxKept / kSparqThreads; ++i) {
    const int e = i * kSparqThreads + CrewThread();
    const int index = e < found ? chosen.list.index[e] : running;
    was[i] = index < running ? chosen.source[index] : index - running + next;
  }
  CrewBarrier();
#pragma unroll
  for (int i = 0; i < kMaxKept / kSparqThreads; ++i) {
    const int e = i * kSparqThreads + CrewThread();
    if (e < found) chosen.source[e] = was[i];
  }
#pragma unroll 1
  for (int e = found + CrewThread(); e < plan.list_stride; e += kSparqThreads) chosen.list.key[e] = kNoToken;
  CrewBarrier();
}

}  // namespace headscope::kernels::decode
