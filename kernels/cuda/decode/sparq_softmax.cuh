// SPDX-License-Identifier: Apache-2.0
// The softmax of the approximate scores: partial sums of threads, warps and spans, and how spans of one KV head learn
// each other's. One query head needs it in the end, for the share of probability that the attended tokens have; a group
// needs it in the middle, because tokens are ranked by the sum of the heads' probabilities.
#pragma once

#include "decode/message.cuh"
#include "decode/sparq_shared.cuh"

namespace headscope::kernels::decode {

// Part of a softmax, as float4: x the largest score, y the sum of exp(factor * (score - x)), z the same sum over the
// local window alone. No tokens: (-inf, 0, 0).

// The warp's part, from its threads' scores, -inf where there is no token.
template <typename Crew>
__device__ __forceinline__ float4 SoftmaxOfWarp(const OfTokens<float, Crew>& score, float factor, int eligible) {
  float best = score[0][0];
#pragma unroll
  for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) best = fmaxf(best, score[piece][i]);
  }
  best = WarpMax(best);
  if (best == kNegativeInfinity) return make_float4(best, 0, 0, 0);
  OfTokens<float, Crew> share;
  float sum = 0, local = 0;
#pragma unroll
  for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) {
      share[piece][i] = __expf(factor * (score[piece][i] - best));
      sum += share[piece][i];
    }
  }
  const int last = Crew::PlaceInSpan(Crew::kPieces - 1, 7) | 0xff;
  if (eligible <= last) {  // else the local window begins behind all of the warp's tokens
#pragma unroll
    for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
      for (int i = 0; i < kKeysOfPiece; ++i)
        local += i >= eligible - Crew::PlaceInSpan(piece, 0) ? share[piece][i] : 0.0f;
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
template <SparqPath kPath>
__device__ __forceinline__ void SetWhole(const SpanView<kPath>& view, int head, float4 part) {
  if (Lane() == 0)
    view.fixed.whole[head] = make_float2(view.choice.factor[head] * part.x + __logf(part.y), part.z / part.y);
}

// The span's part of one head, of its warps' (fixed.part).
template <SparqPath kPath>
__device__ __forceinline__ float4 PartOfSpan(const SpanView<kPath>& view, int head) {
  return MergeParts(CrewOf<kPath>::kWarps, view.choice.factor[head],
                    [&](int warp) { return view.fixed.part[head][warp]; });
}

template <SparqPath kPath>
__device__ __forceinline__ float4* SpanParts(const SpanView<kPath>& view, int span) {
  return view.p.span_softmax + (int64_t{view.list} * view.p.plan.num_spans + span) * view.Group();
}

// A span's part as its block sent it: waits for it.
__device__ __forceinline__ float4 TakePart(float4* from) {
  auto* const message = reinterpret_cast<uint4*>(from);
  uint4 words;
  do {
    words = ReadWords(message);
  } while (words.x == 0 || words.y == 0 || words.z == 0 || words.w == 0);
  WriteWords(message, {0, 0, 0, 0});  // ready for the next call
  return make_float4(FloatOf(words.x), FloatOf(words.y), FloatOf(words.z), FloatOf(words.w));
}

// The sequence's part of one head, once all spans have left theirs in global memory, or sent them. By one warp.
template <SparqPath kPath>
__device__ __forceinline__ float4 PartOfSequence(const SpanView<kPath>& view, int head) {
  return MergeParts(view.p.plan.num_spans, view.choice.factor[head], [&](int span) {
    float4* const part = SpanParts(view, span) + head;
    if constexpr (SendsCandidates(kPath)) return TakePart(part);
    return __ldcg(part);
  });
}

// Waits until the KV head's counter has come to `count`; what was written before it did is then there to read. Ends
// with a barrier.
__device__ __forceinline__ void WaitForCount(const SparqParams& p, int list, int count) {
  if (threadIdx.x == 0) {
    uint32_t arrived;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(p.finished + list) : "memory");
    } while (arrived < static_cast<uint32_t>(count));
  }
  __syncthreads();
}

// For groups: fixed.whole of all heads. Waits for the KV head's other spans. Begins and ends with a barrier.
template <SparqPath kPath>
__device__ __forceinline__ void ExchangeSoftmax(const SpanView<kPath>& view) {
  const SparqParams& p = view.p;
  const int warp = CrewOf<kPath>::Warp();
  __syncthreads();
#pragma unroll 1
  for (int head = warp; head < p.x.group; head += CrewOf<kPath>::kWarps) {
    const float4 part = PartOfSpan(view, head);
    if (view.alone) {
      SetWhole(view, head, part);
    } else if (Lane() == 0) {
      SpanParts(view, view.span)[head] = part;
    }
  }
  __syncthreads();
  if (view.alone) return;
  if (threadIdx.x == 0) CountReleased(p.finished + view.list);
  WaitForCount(p, view.list, p.plan.num_spans);
#pragma unroll 1
  for (int head = warp; head < p.x.group; head += CrewOf<kPath>::kWarps)
    SetWhole(view, head, PartOfSequence(view, head));
  __syncthreads();
}

}  // namespace headscope::kernels::decode
