// What the threads of a SparQ block share, and how they divide a span.
//
// A thread owns 16 tokens of a span: 8 neighbours in each of two pieces of 8 * kSparqThreads tokens. So whatever counts
// tokens in the order (piece, thread, token) counts them in ascending order.
#pragma once

#include "decode/select.cuh"

namespace headscope::kernels::decode {

struct SparqShared {
  SelectShared select;
  union {
    float weight[4][kMaxRank];  // of the chosen components, for the first four heads; until the scores are made
    ShortList short_list;       // from then on
  };
  int component[kMaxRank];    // the chosen ones, the largest first, padded to a multiple of 16
  float magnitude[kMaxRank];  // sum over the group of |q|
  bool is_chosen[kMaxRank];
  float factor[kMaxGroup];  // scale over temperature: what takes a sum of products to a score
  float4 part[kMaxGroup][kSparqWarps];
  // The sequence's log-sum-exp of the scores, and the probability of the local window.
  float2 whole[kMaxGroup];
  float alpha[kMaxGroup];
  float mean[kMaxRank];
  int ticket, is_last;
};
static_assert(sizeof(SparqShared) <= kSparqSharedBytes);

// A block's span. `scores` are sums of products, without a head's factor.
struct SpanView {
  const SparqParams& p;
  SparqShared& fixed;
  float* scores;
  int list, span, first, tokens;
  int eligible;  // tokens of the span before the local window
  bool alone;    // the sequence is one span

  __device__ __forceinline__ float* Row(int head) const { return scores + head * p.plan.score_pitch; }
  // For groups, once fixed.whole is known.
  __device__ __forceinline__ float Probability(int head, int at) const {
    return __expf(fixed.factor[head] * Row(head)[at] - fixed.whole[head].x);
  }
};

// The place in its span of token i of a thread's piece.
__device__ __forceinline__ int PlaceInSpan(int piece, int i) {
  return (piece * kSparqThreads + static_cast<int>(threadIdx.x)) * 8 + i;
}

}  // namespace headscope::kernels::decode
