// The softmax of the approximate scores: partial sums of threads, warps and spans, and how spans of one KV head learn
// each other's. One query head needs it in the end, for the share of probability that the attended tokens have; a group
// needs it in the middle, because tokens are ranked by the sum of the heads' probabilities.
#pragma once

#include "decode/sparq_shared.cuh"

namespace headscope::kernels::decode {

// Part of a softmax, as float4: x the largest score, y the sum of exp(factor * (score - x)), z the same sum over the
// local window alone. No tokens: (-inf, 0, 0).

// The warp's part, from its threads' 16 scores each, -inf where there is no token.
__device__ __forceinline__ float4 SoftmaxOfWarp(const float (&score)[2][8], float factor, int eligible) {
  float best = score[0][0];
#pragma unroll
  for (int i = 0; i < 8; ++i) best = fmaxf(best, fmaxf(score[0][i], score[1][i]));
  best = WarpMax(best);
  if (best == kNegativeInfinity) return make_float4(best, 0, 0, 0);
  float share[2][8], sum = 0, local = 0;
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      share[piece][i] = __expf(factor * (score[piece][i] - best));
      sum += share[piece][i];
    }
  }
  if (eligible <= (PlaceInSpan(1, 7) | 0xff)) {  // else the local window begins behind all of the warp's tokens
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
#pragma unroll
      for (int i = 0; i < 8; ++i) local += i >= eligible - PlaceInSpan(piece, 0) ? share[piece][i] : 0.0f;
    }
    local = WarpSum(local);
  }
  return make_float4(best, WarpSum(sum), local, 0);
}

// What load(0) .. load(parts - 1) make together; every lane has it. Each part is loaded once: from memory that takes
// long.
template <typename Load>
__device__ __forceinline__ float4 MergeParts(int parts, float factor, Load&& load) {
  float best = kNegativeInfinity, sum = 0, local = 0;
#pragma unroll 1
  for (int i = Lane(); i < parts; i += 32) {
    const float4 part = load(i);
    if (part.x == kNegativeInfinity) continue;
    const float higher = fmaxf(best, part.x);
    const float before = __expf(factor * (best - higher)), now = __expf(factor * (part.x - higher));
    sum = sum * before + part.y * now;
    local = local * before + part.z * now;
    best = higher;
  }
  const float highest = WarpMax(best);
  const float scale = best == kNegativeInfinity ? 0.0f : __expf(factor * (best - highest));
  return make_float4(highest, WarpSum(sum * scale), WarpSum(local * scale), 0);
}

// By one warp: fixed.whole[head] of the whole sequence's part.
__device__ __forceinline__ void SetWhole(const SpanView& view, int head, float4 part) {
  if (Lane() == 0)
    view.fixed.whole[head] = make_float2(view.choice.factor[head] * part.x + __logf(part.y), part.z / part.y);
}

// The span's part of one head, of its warps' (fixed.part).
__device__ __forceinline__ float4 PartOfSpan(const SpanView& view, int head) {
  return MergeParts(kSparqWarps, view.choice.factor[head], [&](int warp) { return view.fixed.part[head][warp]; });
}

__device__ __forceinline__ float4* SpanParts(const SpanView& view, int span) {
  return view.p.span_softmax + (int64_t{view.list} * view.p.plan.num_spans + span) * view.p.x.group;
}

// The sequence's part of one head, once all spans have left theirs in global memory.
__device__ __forceinline__ float4 PartOfSequence(const SpanView& view, int head) {
  return MergeParts(view.p.plan.num_spans, view.choice.factor[head],
                    [&](int span) { return __ldcg(SpanParts(view, span) + head); });
}

// Waits until the KV head's counter has come to `count`; what was written before it did is then there to read. Ends
// with a barrier.
__device__ __forceinline__ void WaitForCount(const SparqParams& p, int list, int count) {
  if (CrewThread() == 0) {
    uint32_t arrived;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(p.finished + list) : "memory");
    } while (arrived < static_cast<uint32_t>(count));
  }
  CrewBarrier();
}

// For groups: fixed.whole of all heads. Waits for the KV head's other spans. Begins and ends with a barrier.
__device__ __forceinline__ void ExchangeSoftmax(const SpanView& view) {
  const SparqParams& p = view.p;
  const int warp = CrewWarp();
  CrewBarrier();
#pragma unroll 1
  for (int head = warp; head < p.x.group; head += kSparqWarps) {
    const float4 part = PartOfSpan(view, head);
    if (view.alone) {
      SetWhole(view, head, part);
    } else if (Lane() == 0) {
      SpanParts(view, view.span)[head] = part;
    }
  }
  CrewBarrier();
  if (view.alone) return;
  if (CrewThread() == 0) CountReleased(p.finished + view.list);
  WaitForCount(p, view.list, p.plan.num_spans);
#pragma unroll 1
  for (int head = warp; head < p.x.group; head += kSparqWarps) SetWhole(view, head, PartOfSequence(view, head));
  CrewBarrier();
}

}  // namespace headscope::kernels::decode
