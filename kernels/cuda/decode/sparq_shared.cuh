// SPDX-License-Identifier: Apache-2.0
// What the threads of a SparQ crew share, and what they know of a span.
#pragma once

#include "decode/select.cuh"

namespace headscope::kernels::decode {

template <SparqPath kPath>
struct SparqShared {
  // The components that an item's scores read.
  struct Choice {
    int component[kMaxRank];  // the largest first, padded to a multiple of 16 by repeating one
    float factor[kMaxGroup];  // scale over temperature: what takes a sum of products to a score
  };
  SelectShared select;
  ShortList short_list;
  Choice choice[2];           // of this item and the next
  float magnitude[kMaxRank];  // sum over the group of |q|
  bool is_chosen[kMaxRank];
  float4 part[kMaxGroup][CrewOf<kPath>::kWarps];
  // The sequence's log-sum-exp of the scores, and the probability of the local window.
  float2 whole[kMaxGroup];
  float alpha[kMaxGroup];
  int after, is_last;
};

// Of a crew of a stream: the feeder chooses the components, for one head.
template <SparqPath kPath>
requires(Streams(kPath)) struct SparqShared<kPath> {
  struct Choice {
    float factor[1];
  };
  SelectShared select;
  ShortList short_list;
  float4 part[1][CrewOf<kPath>::kWarps];
  Choice choice[1];
  float2 whole[1];
  float alpha[1];
  int is_last;
  int number;  // of the crew's item among its stream's
};
static_assert(sizeof(SelectShared) + sizeof(ShortList) >= kCrewSelectBytes);

// A span, as the block that scores it sees it. `scores` are sums of products, without a head's factor.
template <SparqPath kPath>
struct SpanView {
  using Crew = CrewOf<kPath>;
  using Shared = SparqShared<kPath>;
  static_assert(sizeof(Shared) <= (Streams(kPath) ? kCrewSharedBytes : kSparqSharedBytes));
  static constexpr bool kOneHead = Streams(kPath);

  const SparqParams& p;
  Shared& fixed;
  const typename Shared::Choice& choice;
  float* scores;
  int list, span, first, tokens;
  int eligible;  // tokens of the span before the local window
  bool alone;    // the sequence is one span

  // turn: of the block's items, the number of this one.
  __device__ __forceinline__ SpanView(const SparqParams& params, char* shared, int item, int turn)
      : p(params),
        fixed(*reinterpret_cast<Shared*>(shared)),
        choice(fixed.choice[kOneHead ? 0 : turn & 1]),
        scores(reinterpret_cast<float*>(shared + p.plan.scores)),
        list(Quotient(item, p.plan.by_spans)),
        span(item - list * p.plan.num_spans),
        first(span * p.plan.span_tokens),
        tokens(min(p.plan.span_tokens, p.x.seq_k - first)),
        eligible(min(tokens, p.x.seq_k - p.plan.local - first)),
        alone(p.plan.num_spans == 1) {}

  // Query heads of a KV head: a constant where the path knows it.
  __device__ __forceinline__ int Group() const { return kOneHead ? 1 : p.x.group; }
  __device__ __forceinline__ int Sequence() const { return Quotient(list, p.plan.by_kv_heads); }
  __device__ __forceinline__ int KvHead() const { return list - Sequence() * p.x.num_kv_heads; }
  __device__ __forceinline__ float* Row(int head) const { return scores + head * p.plan.score_pitch; }
  // For groups, once fixed.whole is known.
  __device__ __forceinline__ float Probability(int head, int at) const {
    return __expf(choice.factor[head] * Row(head)[at] - fixed.whole[head].x);
  }
};

}  // namespace headscope::kernels::decode
