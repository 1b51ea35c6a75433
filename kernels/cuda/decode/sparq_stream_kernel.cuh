// SPDX-License-Identifier: Apache-2.0
// SparQ in one launch, for one query head a KV head and component-major K, on GPUs with bulk copies. See
// kernels/cuda_decode.h for the method; this page is about the machine.
//
// The bytes that must move are the chosen components of every key, so their stream should never stop: one block a
// multiprocessor stays, in which a warp of its own feeds a ring (sparq_feed.cuh) from which crews take items, spans
// of tokens of a KV head. While one makes scores, which never leave its registers, the others keep their spans' best
// tokens; the crew that finishes last of a KV head (a counter tells) makes of the spans' lists the exact top k and
// attends it, and meanwhile the others take what comes. Where no multiprocessor has a second item (kOneItem), a block
// has one crew, of more threads, and the block of a KV head's last span is the one to merge.
#pragma once

#include "decode/sparq_feed.cuh"
#include "decode/sparq_finish.cuh"

namespace headscope::kernels::decode {

template <typename T, int D, SparqPath kPath>
__global__ void __launch_bounds__(StreamThreads(kPath), 1) SparqStreamKernel(const __grid_constant__ SparqParams p) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using Crew = CrewOf<kPath>;
  extern __shared__ __align__(128) char block_shared[];
  auto& stream = *reinterpret_cast<StreamShared*>(block_shared);
  const SparqPlan& plan = p.plan;
  char* const ring = block_shared + plan.ring;
  if (threadIdx.x == 0) BeginStream<kPath>(stream);
  __syncthreads();
  const int crew = static_cast<int>(threadIdx.x) / Crew::kThreads;
  if (crew == StreamCrews(kPath)) {
    Feed<T, D, kPath>(p, stream, ring);
    return;
  }
  char* const shared = block_shared + plan.crews + crew * plan.crew_bytes;
  auto& fixed = *reinterpret_cast<SparqShared<kPath>*>(shared);
  T* const query = reinterpret_cast<T*>(shared + plan.query);
  const ChosenList chosen(plan, shared);
#pragma unroll 1
  while (true) {
    const StreamItem& taken = TakeItem<T, D, kPath>(plan, stream, fixed, query);
    const int item = taken.item;
    if (item >= plan.items) return;
    const SpanView<kPath> view(p, shared, item, 0);
    OfTokens<uint32_t, Crew> key;
    const float factor = taken.factor;  // once the item is scored the feeder may write there
    OfTokens<float, Crew> score;
    ScoreStream<T>(view, stream, taken, ring, score);
    const float4 part = SoftmaxOfWarp<Crew>(score, factor, view.eligible);
    if (Lane() == 0) fixed.part[0][Crew::Warp()] = part;
    KeysOfTokens(view, score, key);
    int found = 0;
    if (!ChooseTokens(view, chosen, false, key, &found, [] {})) continue;
    AttendList<T, D>(view, chosen, found, reinterpret_cast<float*>(shared + plan.merged), query);
  }
#else
  __trap();  // PlanSparq chooses this kernel for GPUs that have bulk copies
#endif
}

}  // namespace headscope::kernels::decode
