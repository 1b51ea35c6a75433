// What the threads of a SparQ block share, and how they divide a span.
//
// A thread owns 16 tokens of a span: 8 neighbours in each of two pieces of 8 * kSparqThreads tokens. So whatever counts
// tokens in the order (piece, thread, token) counts them in ascending order.
#pragma once

#include "decode/select.cuh"

namespace headscope::kernels::decode {

// The components that an item's scores read.
struct Choice {
  int component[kMaxRank];  // the largest first, padded to a multiple of 16 by repeating one
  float factor[kMaxGroup];  // scale over temperature: what takes a sum of products to a score
};

struct SparqShared {
  SelectShared select;
  ShortList short_list;
  Choice choice[2];           // of this item and the next
  float magnitude[kMaxRank];  // sum over the group of |q|
  bool is_chosen[kMaxRank];
  float4 part[kMaxGroup][kSparqWarps];
  // The sequence's log-sum-exp of the scores, and the probability of the local window.
  float2 whole[kMaxGroup];
  float alpha[kMaxGroup];
  int after, is_last;
  int number;  // of a crew's item among its stream's
};
static_assert(sizeof(SparqShared) <= kSparqSharedBytes);

// A span, as the block that scores it sees it. `scores` are sums of products, without a head's factor.
struct SpanView {
  const SparqParams& p;
  SparqShared& fixed;
  const Choice& choice;
  float* scores;
  int list, span, first, tokens;
  int eligible;  // tokens of the span before the local window
  bool alone;    // the sequence is one span

  // turn: of the block's items, the number of this one.
  __device__ __forceinline__ SpanView(const SparqParams& params, char* shared, int item, int turn)
      : p(params),
        fixed(*reinterpret_cast<SparqShared*>(shared)),
        choice(fixed.choice[turn & 1]),
        scores(reinterpret_cast<float*>(shared + p.plan.scores)),
        list(Quotient(item, p.plan.by_spans)),
        span(item - list * p.plan.num_spans),
        first(span * p.plan.span_tokens),
        tokens(min(p.plan.span_tokens, p.x.seq_k - first)),
        eligible(min(tokens, p.x.seq_k - p.plan.local - first)),
        alone(p.plan.num_spans == 1) {}

  __device__ __forceinline__ int Sequence() const { return Quotient(list, p.plan.by_kv_heads); }
  __device__ __forceinline__ int KvHead() const { return list - Sequence() * p.x.num_kv_heads; }
  __device__ __forceinline__ float* Row(int head) const { return scores + head * p.plan.score_pitch; }
  // For groups, once fixed.whole is known.
  __device__ __forceinline__ float Probability(int head, int at) const {
    return __expf(choice.factor[head] * Row(head)[at] - fixed.whole[head].x);
  }
};

// Query heads of a KV head: a constant where the path knows it.
template <SparqPath kPath>
__device__ __forceinline__ int GroupOf(const SparqParams& p) {
  return kPath == SparqPath::kOneHead ? 1 : p.x.group;
}

// The place in its span of token i of a thread's piece.
__device__ __forceinline__ int PlaceInSpan(int piece, int i) {
  return (piece * kSparqThreads + CrewThread()) * 8 + i;
}

}  // namespace headscope::kernels::decode
