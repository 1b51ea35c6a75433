// SparQ in one launch. See kernels/cuda_decode.h for the method; this page is about the machine.
//
// One block per (span of tokens, KV head) makes the approximate scores of its span and keeps its best tokens; the block
// that finishes last of a KV head (a counter tells) makes of the spans' lists the exact top k and attends it, while
// other KV heads' spans still stream. The bytes that must move are the chosen components of every key, so everything
// else has to be short or hide behind that stream: two blocks share a multiprocessor, and while one selects, the
// other loads. With one query head the scores never leave the registers. For a group of query heads the softmaxed
// scores are summed, which needs each head's normaliser over the *whole* sequence: the scores wait in shared memory
// until all spans of the KV head have left their (max, sum) in global memory.
#pragma once

#include "decode/sparq_attend.cuh"
#include "decode/sparq_choose.cuh"
#include "decode/sparq_score.cuh"

namespace headscope::kernels::decode {

// A thread's 16 scores of one head out of shared memory; -inf from the span's end on.
__device__ __forceinline__ void LoadOwn(const SpanView& view, int head, float (&score)[2][8]) {
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    const int first = PlaceInSpan(piece, 0);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float4 x = make_float4(kNegativeInfinity, kNegativeInfinity, kNegativeInfinity, kNegativeInfinity);
      if (first < view.tokens) x = *reinterpret_cast<const float4*>(view.Row(head) + first + half * 4);
      score[piece][half * 4] = x.x;
      score[piece][half * 4 + 1] = x.y;
      score[piece][half * 4 + 2] = x.z;
      score[piece][half * 4 + 3] = x.w;
    }
  }
}

// The softmax of the span, and what each of a thread's tokens is ranked by: the score or, for a group, the sum of the
// heads' probabilities.
__device__ __forceinline__ void RankTokens(const SpanView& view, float (&rank)[2][8]) {
  SparqShared& fixed = view.fixed;
  const int group = view.p.x.group, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float score[2][8];
  for (int head = 0; head < group; ++head) {
    if (view.p.plan.in_registers == 0) LoadOwn(view, head, rank);
    const float4 part = SoftmaxOfWarp(rank, fixed.factor[head], view.eligible);
    if (lane == 0) fixed.part[head][warp] = part;
  }
  if (group == 1) return;
  ExchangeSoftmax(view);
#pragma unroll
  for (int i = 0; i < 8; ++i) rank[0][i] = rank[1][i] = 0;
  for (int head = 0; head < group; ++head) {
    LoadOwn(view, head, score);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      rank[0][i] += __expf(fixed.factor[head] * score[0][i] - fixed.whole[head].x);
      rank[1][i] += __expf(fixed.factor[head] * score[1][i] - fixed.whole[head].x);
    }
  }
}

// Leaves the span's `found` candidates and softmax in global memory. True in the block that is the last of its KV head
// to do so; all spans' are then there to read.
__device__ __forceinline__ bool PublishSpan(const SpanView& view, SelectedList list, int found) {
  const SparqParams& p = view.p;
  const int group = p.x.group;
  const int64_t base = (int64_t{view.list} * p.plan.num_spans + view.span) * p.plan.list_stride;
  for (int e = threadIdx.x; e < p.plan.list_stride; e += kSparqThreads) {
    p.candidate_key[base + e] = e < found ? list.key[e] : kNoToken;
    if (e >= found) continue;
    p.candidate_token[base + e] = view.first + list.index[e];
    if (group == 1) continue;
    for (int head = 0; head < group; ++head)
      p.candidate_value[(base + e) * group + head] = view.Probability(head, list.index[e]);
  }
  if (group == 1 && threadIdx.x / 32 == kSparqWarps - 1) {
    const float4 part = PartOfSpan(view.fixed, 0);
    if (threadIdx.x % 32 == 0) *SpanParts(view, view.span) = part;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // the candidates, of all threads, before the count, for whoever reads them
    const int rounds = p.plan.waits != 0 ? 2 : 1;
    const bool last = atomicAdd(p.finished + view.list, 1u) + 1 == static_cast<uint32_t>(rounds * p.plan.num_spans);
    if (last) p.finished[view.list] = 0;  // ready for the next call
    view.fixed.is_last = last;
    __threadfence();
  }
  __syncthreads();
  return view.fixed.is_last != 0;
}

// Keys of up to 4096 candidates: `running` of the list in shared memory, then those of the KV head from `next` on.
__device__ __forceinline__ void LoadCandidates(const SpanView& view, SelectedList list, int running, int next,
                                               uint32_t (&key)[2][8]) {
  const SparqPlan& plan = view.p.plan;
  const int total = plan.num_spans * plan.list_stride;
  const uint32_t* from = view.p.candidate_key + int64_t{view.list} * total + next - running;
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    const int first = PlaceInSpan(piece, 0);
    uint4 x[2] = {};
    if (first < running) {
      x[0] = *reinterpret_cast<const uint4*>(list.key + first);
      x[1] = *reinterpret_cast<const uint4*>(list.key + first + 4);
    } else if (first - running + next < total) {
      x[0] = __ldcg(reinterpret_cast<const uint4*>(from + first));
      x[1] = __ldcg(reinterpret_cast<const uint4*>(from + first + 4));
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      key[piece][half * 4] = x[half].x;
      key[piece][half * 4 + 1] = x[half].y;
      key[piece][half * 4 + 2] = x[half].z;
      key[piece][half * 4 + 3] = x[half].w;
    }
  }
}

template <typename T, int D>
__global__ void __launch_bounds__(kSparqThreads, 2) SparqKernel(const __grid_constant__ SparqParams p) {
  extern __shared__ __align__(128) char shared[];
  auto& fixed = *reinterpret_cast<SparqShared*>(shared);
  const SparqPlan& plan = p.plan;
  const DecodeOperands& x = p.x;
  int number = static_cast<int>(blockIdx.x);
  if (plan.waits != 0) {
    if (threadIdx.x == 0) fixed.ticket = TakeTicket(p);
    __syncthreads();
    number = fixed.ticket;
  }
  const int span = number % plan.num_spans, list = number / plan.num_spans;
  const int sequence = list / x.num_kv_heads, kv_head = list % x.num_kv_heads, first = span * plan.span_tokens;
  const int tokens = min(plan.span_tokens, x.seq_k - first), oldest = x.seq_k - plan.local;
  const SpanView view{p,
                      fixed,
                      reinterpret_cast<float*>(shared + plan.tile),
                      list,
                      span,
                      first,
                      tokens,
                      min(tokens, oldest - first),
                      plan.num_spans == 1};
  const AttendedRows<T, D> rows(view, shared);
  T* query = reinterpret_cast<T*>(shared + plan.query);
  auto* weight = reinterpret_cast<uint2*>(shared + plan.weight);
  const int kept = plan.selected + plan.local;
  const bool requested = view.alone && plan.in_registers != 0 && TileIsLocal(plan);
  if (requested) {
    rows.Request(static_cast<int>(threadIdx.x) / 32 * 16, kept,
                 [&](int slot) { return oldest + slot - plan.selected; });
  }

  ChooseComponents<T, D>(view, query, weight);
  float rank[2][8];
  if (p.kt != nullptr) {
    const T* kt = static_cast<const T*>(p.kt) + sequence * p.kt_batch + kv_head * p.kt_head + first;
    if (plan.in_registers != 0) {
      ScoreInRegisters<T>(view, kt, rank);
    } else if (plan.head_tiles == 0) {
      ScoreFewHeads<T>(view, kt);
    } else {
      ScoreComponentRows<T>(view, kt, weight);
    }
  } else {
    const T* k = static_cast<const T*>(x.k) + sequence * x.k_batch + kv_head * x.k_head + first * x.k_row;
    ScoreWholeRows<T, D>(view, k, weight);
  }
  if (plan.in_registers == 0) __syncthreads();
  RankTokens(view, rank);

  uint32_t key[2][8];
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      key[piece][i] = PlaceInSpan(piece, i) < view.eligible ? OrderKey(rank[piece][i]) : kNoToken;
  }
  const SelectedList selected{reinterpret_cast<uint32_t*>(shared + plan.list_key),
                              reinterpret_cast<int*>(shared + plan.list_index)};
  int* source = reinterpret_cast<int*>(shared + plan.list_source);
  int* token = reinterpret_cast<int*>(shared + plan.token);
  const int total = plan.num_spans * plan.list_stride;
  // The span's tokens first; then, in the last block, the spans' candidates, as many at a time as threads can hold.
  int chosen, running = 0, next = 0;
  for (bool merging = false;; merging = true) {
    chosen = SelectLargest(key, plan.selected, fixed.select, fixed.short_list, selected);
    if (!merging) {
      if (!view.alone && !PublishSpan(view, selected, chosen)) return;
    } else {
      // An entry of the list came from the list before or from the candidates.
      int was[kMaxKept / kSparqThreads];
#pragma unroll
      for (int i = 0; i < kMaxKept / kSparqThreads; ++i) {
        const int e = i * kSparqThreads + static_cast<int>(threadIdx.x);
        const int index = e < chosen ? selected.index[e] : running;
        was[i] = index < running ? source[index] : index - running + next;
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kMaxKept / kSparqThreads; ++i) {
        const int e = i * kSparqThreads + static_cast<int>(threadIdx.x);
        if (e < chosen) source[e] = was[i];
      }
      for (int e = chosen + static_cast<int>(threadIdx.x); e < plan.list_stride; e += kSparqThreads)
        selected.key[e] = kNoToken;
      __syncthreads();
      next += kSpanTokens - running;
      running = plan.list_stride;
    }
    if (view.alone || next >= total) break;
    LoadCandidates(view, selected, running, next, key);
  }

  const float* value = view.alone ? nullptr : p.candidate_value + int64_t{list} * total * x.group;
  const auto sum_shares = [&] {
    if (x.group == 1) {
      if (threadIdx.x / 32 != 0) return;
      SetWhole(fixed, 0, view.alone ? PartOfSpan(fixed, 0) : PartOfSequence(view, 0));
      __syncwarp();
    }
    SumShares(view, selected, source, chosen, value);
  };
  const bool at_once = view.alone && x.group > 1;  // from scores whose place the rows take
  if (at_once) sum_shares();
  const int32_t* candidate_token = p.candidate_token + int64_t{list} * total;
  for (int e = threadIdx.x; e < kept; e += kSparqThreads) {
    token[e] = e >= chosen ? oldest + e - chosen : view.alone ? selected.index[e] : __ldcg(candidate_token + source[e]);
  }
  __syncthreads();
  AttendTokens<T, D>(view, rows, query, token, kept, requested, [&] {
    if (!at_once) sum_shares();
    if (p.chosen == nullptr) return;
    for (int e = threadIdx.x; e < kept; e += kSparqThreads) p.chosen[int64_t{list} * p.num_tokens + e] = token[e];
  });
}

}  // namespace headscope::kernels::decode
