// SparQ in one launch. See kernels/cuda_decode.h for the method; this page is about the machine.
//
// One block per (span of tokens, KV head) makes the approximate scores of its span and keeps a short list of the best;
// the block that finishes last of a KV head (a counter tells) merges the spans' lists into the exact top k and attends
// it, while other KV heads' spans still stream. The bytes that must move are the chosen components of every key, so
// everything else has to hide behind that stream: three blocks or more share a multiprocessor, and while one selects,
// the others load. Scores stay in shared memory. For a group of query heads the softmaxed scores are summed, which
// needs each head's normaliser over the *whole* sequence: the spans of one KV head then form a thread-block cluster and
// exchange (max, sum) through distributed shared memory.
#pragma once

#include "decode/cluster.cuh"
#include "decode/select.cuh"
#include "decode/sparq_score.cuh"

namespace headscope::kernels::decode {

struct SparqShared {
  SelectShared select;
  float max[kSparqWarps][kMaxGroup], sum[kSparqWarps][kMaxGroup];
  float2 softmax[kMaxGroup];  // the span's (max, sum)
  // Group 1: the sequence's (max, 1 / sum), once known. Else .y takes exp(score - span's max) to a probability.
  float2 whole[kMaxGroup];
  float alpha[kMaxGroup];
  int is_last;
};
static_assert(sizeof(SparqShared) <= kSparqSharedBytes);

// A block's span.
struct SpanView {
  const SparqParams& p;
  SparqShared& fixed;
  float* scores;
  int list, span, first, tokens;
  bool alone;  // the sequence is one span

  // What becomes of a score once the span is normalised: itself for group 1, else a probability.
  __device__ __forceinline__ float Value(int head, int at) const {
    const float x = scores[head * p.plan.score_pitch + at];
    return p.x.group == 1 ? x : x * fixed.whole[head].y;
  }
  __device__ __forceinline__ float Share(int head, float value) const {
    return p.x.group == 1 ? __expf(value - fixed.whole[0].x) * fixed.whole[0].y : value;
  }
};

// (max, sum of exp) of every head over the span, into fixed.softmax and fixed.whole. For a group the scores become
// exp(score - max).
__device__ __forceinline__ void NormaliseSpan(const SpanView& view) {
  SparqShared& fixed = view.fixed;
  const int group = view.p.x.group, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const auto row = [&](int head) { return reinterpret_cast<float4*>(view.scores + head * view.p.plan.score_pitch); };
  for (int head = 0; head < group; ++head) {
    float best = kNegativeInfinity;
#pragma unroll 4
    for (int at = threadIdx.x; 4 * at < view.tokens; at += kSparqThreads) {
      const float4 x = row(head)[at];
      best = fmaxf(fmaxf(fmaxf(best, x.x), fmaxf(x.y, x.z)), x.w);
    }
    best = WarpMax(best);
    if (lane == 0) fixed.max[warp][head] = best;
  }
  __syncthreads();
  for (int head = 0; head < group; ++head) {
    float best = fixed.max[0][head];
#pragma unroll
    for (int w = 1; w < kSparqWarps; ++w) best = fmaxf(best, fixed.max[w][head]);
    float sum = 0;
#pragma unroll 4
    for (int at = threadIdx.x; 4 * at < view.tokens; at += kSparqThreads) {
      float4 x = row(head)[at];
      x = make_float4(__expf(x.x - best), __expf(x.y - best), __expf(x.z - best), __expf(x.w - best));
      sum += (x.x + x.y) + (x.z + x.w);
      if (group > 1) row(head)[at] = x;
    }
    sum = WarpSum(sum);
    if (lane == 0) fixed.sum[warp][head] = sum;
  }
  __syncthreads();
  if (threadIdx.x < group) {
    float best = kNegativeInfinity, sum = 0;
#pragma unroll
    for (int w = 0; w < kSparqWarps; ++w) {
      best = fmaxf(best, fixed.max[w][threadIdx.x]);
      sum += fixed.sum[w][threadIdx.x];
    }
    fixed.softmax[threadIdx.x] = make_float2(best, sum);
    fixed.whole[threadIdx.x] = make_float2(best, 1.0f / sum);
    if (group == 1 && !view.alone)
      view.p.span_softmax[int64_t{view.list} * view.p.plan.num_spans + view.span] = make_float2(best, sum);
  }
  __syncthreads();
}

// Makes fixed.whole of all spans' (max, sum). Whoever calls this waits for the cluster before it leaves.
__device__ __forceinline__ void ExchangeSoftmax(const SpanView& view) {
  SparqShared& fixed = view.fixed;
  const int lane = threadIdx.x % 32;
  ArriveAtCluster();
  WaitForCluster();
  for (int head = threadIdx.x / 32; head < view.p.x.group; head += kSparqWarps) {
    const float2 theirs = lane < view.p.plan.num_spans ? LoadFromCluster(&fixed.softmax[head], lane)
                                                       : make_float2(kNegativeInfinity, 0.0f);
    const float best = WarpMax(theirs.x);
    const float sum = WarpSum(theirs.y * __expf(theirs.x - best));
    if (lane == 0) fixed.whole[head] = make_float2(best, __expf(fixed.softmax[head].x - best) / sum);
  }
  ArriveAtCluster();
  __syncthreads();
}

// The span's tokens before the local window, for CollectCandidates.
struct SpanSource {
  static constexpr int bits = 6;  // a span has at most 8192 tokens, 32 a thread
  const SpanView& view;
  int eligible;

  __device__ __forceinline__ int Token(int index) const { return view.first + index; }
  template <typename F>
  __device__ __forceinline__ void ForEachEight(F&& f) const {
    for (int base = 4 * static_cast<int>(threadIdx.x); base < eligible; base += 8 * kSparqThreads) {
      const int second = base + 4 * kSparqThreads;
      const auto index = [&](int part) { return part < 4 ? base + part : second + part - 4; };
      float4 x[2] = {Rank(base), second < eligible ? Rank(second) : make_float4(0, 0, 0, 0)};
      const float rank[8] = {x[0].x, x[0].y, x[0].z, x[0].w, x[1].x, x[1].y, x[1].z, x[1].w};
      uint32_t key[8];
#pragma unroll
      for (int part = 0; part < 8; ++part) key[part] = index(part) < eligible ? OrderKey(rank[part]) : kNoToken;
      f(key, index);
    }
  }
  // What four neighbouring tokens are ranked by.
  __device__ __forceinline__ float4 Rank(int at) const {
    if (view.p.x.group == 1) return *reinterpret_cast<const float4*>(view.scores + at);
    float4 x = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int head = 0; head < view.p.x.group; ++head) {
      const float4 y = *reinterpret_cast<const float4*>(view.scores + head * view.p.plan.score_pitch + at);
      const float factor = view.fixed.whole[head].y;
      x = make_float4(x.x + y.x * factor, x.y + y.y * factor, x.z + y.z * factor, x.w + y.w * factor);
    }
    return x;
  }
};

// The candidates of all spans of a KV head.
struct MergeSource {
  const uint32_t* key;
  const int32_t* token;
  int total, bits;

  __device__ __forceinline__ int Token(int index) const { return __ldcg(token + index); }
  template <typename F>
  __device__ __forceinline__ void ForEachEight(F&& f) const {
    for (int base = static_cast<int>(threadIdx.x); base < total; base += 8 * kSparqThreads) {
      const auto index = [&](int part) { return base + part * kSparqThreads; };
      uint32_t keys[8];
#pragma unroll
      for (int part = 0; part < 8; ++part) keys[part] = index(part) < total ? __ldcg(key + index(part)) : kNoToken;
      f(keys, index);
    }
  }
};

// Leaves the span's candidates and what it has of the local window in global memory. True in the block that is the last
// of its KV head to do so; all spans' candidates are then there to read.
__device__ __forceinline__ bool PublishSpan(const SpanView& view, CandidateList list, int found) {
  const SparqParams& p = view.p;
  const int64_t base = (int64_t{view.list} * p.plan.num_spans + view.span) * p.plan.capacity;
  for (int e = threadIdx.x; e < p.plan.capacity; e += kSparqThreads) {
    p.candidate_key[base + e] = e < found ? static_cast<uint32_t>(list.key[e] >> 32) : kNoToken;
    if (e >= found) continue;
    const int at = list.source[e];
    p.candidate_token[base + e] = view.first + at;
    for (int head = 0; head < p.x.group; ++head)
      p.candidate_value[(base + e) * p.x.group + head] = view.Value(head, at);
  }
  for (int e = threadIdx.x; e < p.plan.local; e += kSparqThreads) {
    const int at = p.x.seq_k - p.plan.local + e - view.first;
    if (at < 0 || at >= view.tokens) continue;
    float* to = p.local_value + (int64_t{view.list} * p.plan.local + e) * p.x.group;
    for (int head = 0; head < p.x.group; ++head) to[head] = view.Value(head, at);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();  // the candidates, of all threads, before the count, for whoever reads them
    const bool last = atomicAdd(p.finished + view.list, 1u) + 1 == static_cast<uint32_t>(p.plan.num_spans);
    if (last) p.finished[view.list] = 0;  // ready for the next call
    view.fixed.is_last = last;
    __threadfence();
  }
  __syncthreads();
  return view.fixed.is_last != 0;
}

// Group 1: the sequence's (max, 1 / sum) of the spans'.
__device__ __forceinline__ void MergeSoftmax(const SpanView& view) {
  const int lane = threadIdx.x % 32, spans = view.p.plan.num_spans;
  const float2* from = view.p.span_softmax + int64_t{view.list} * spans;
  float best = kNegativeInfinity, sum = 0;
  for (int span = lane; span < spans; span += 32) best = fmaxf(best, __ldcg(from + span).x);
  best = WarpMax(best);
  for (int span = lane; span < spans; span += 32) {
    const float2 theirs = __ldcg(from + span);
    sum += theirs.y * __expf(theirs.x - best);
  }
  sum = WarpSum(sum);
  if (threadIdx.x == 0) view.fixed.whole[0] = make_float2(best, 1.0f / sum);
}

// The place of tokens[i] among all of them in ascending order; those from `chosen` on, the local window, are in order.
__device__ __forceinline__ int PlaceOf(const int* tokens, int i, int chosen) {
  if (i >= chosen) return i;
  int place = 0;
  for (int other = 0; other < chosen; ++other) place += tokens[other] < tokens[i];
  return place;
}

// Each head's probability of all kept tokens, into fixed.alpha; the local window is `local` from slot `chosen` on.
__device__ __forceinline__ void SumShares(const SpanView& view, const int* tokens, const int* sources, int chosen) {
  const SparqParams& p = view.p;
  const int kept = chosen + p.plan.local;
  const int64_t candidates = int64_t{view.list} * p.plan.num_spans * p.plan.capacity;
  for (int head = threadIdx.x / 32; head < p.x.group; head += kSparqWarps) {
    float sum = 0;
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < kept; i += 32) {
      float value;
      if (view.alone) {
        value = view.Value(head, tokens[i]);
      } else if (i < chosen) {
        value = __ldcg(p.candidate_value + (candidates + sources[i]) * p.x.group + head);
      } else {
        value = __ldcg(p.local_value + (int64_t{view.list} * p.plan.local + i - chosen) * p.x.group + head);
      }
      sum += view.Share(head, value);
    }
    sum = WarpSum(sum);
    if (threadIdx.x % 32 == 0) view.fixed.alpha[head] = fminf(sum, 1.0f);  // rounding may lift the sum above 1
  }
}

// Adds the local window to the `chosen` tokens in shared memory, attends them and writes the output row of every query
// head of the group, 8 heads at a time. The tokens' rows, and then the warps' partial outputs, take the scores' place.
template <typename T, int D>
__device__ __forceinline__ void AttendTokens(const SpanView& view, char* shared, int chosen) {
  const SparqParams& p = view.p;
  const SparqPlan& plan = p.plan;
  const DecodeOperands& x = p.x;
  const int sequence = view.list / x.num_kv_heads, kv_head = view.list % x.num_kv_heads, warp = threadIdx.x / 32;
  const int kept = chosen + plan.local, oldest = x.seq_k - plan.local;
  int* tokens = reinterpret_cast<int*>(shared + plan.token);
  const int* sources = reinterpret_cast<const int*>(shared + plan.source);
  for (int i = threadIdx.x; i < plan.local; i += kSparqThreads) tokens[chosen + i] = oldest + i;
  __syncthreads();
  if (view.alone) {
    SumShares(view, tokens, sources, chosen);
    __syncthreads();  // the scores are done with
  }
  const T* k = static_cast<const T*>(x.k) + sequence * x.k_batch + kv_head * x.k_head;
  const T* v = static_cast<const T*>(x.v) + sequence * x.v_batch + kv_head * x.v_head;
  const SharedTile<T, D> tile{reinterpret_cast<T*>(view.scores) + warp * SharedTile<T, D>::kElements};
  auto merged = reinterpret_cast<float(*)[D + 2]>(view.scores);
  static_assert(kSparqThreads % D == 0, "a thread's outputs are of one component");
  const int d = static_cast<int>(threadIdx.x) % D;
  for (int first = 0; first < x.group; first += kMaxDenseGroup) {
    const int heads = min(kMaxDenseGroup, x.group - first);
    const int64_t head = int64_t{kv_head} * x.group + first;
    WarpAttention<T, D> attention;
    attention.out.Clear();
    for (int base = warp * 16; base < kept; base += kSparqWarps * 16) {
      tile.Request(k, x.k_row, v, x.v_row, [&](int t) { return int64_t{tokens[min(base + t, kept - 1)]}; });
      if (base < kSparqWarps * 16)  // what else must come from memory comes meanwhile
        attention.query.Load(static_cast<const T*>(x.q) + sequence * x.q_batch + head * x.q_head, x.q_head, heads);
      asm volatile("cp.async.wait_all;" ::: "memory");
      __syncwarp();
      attention.Step(tile, x.scale, 0.0f, kept - base);
      __syncwarp();
    }
    if (first == 0) {
      if (!view.alone) SumShares(view, tokens, sources, chosen);
      if (p.chosen != nullptr) {
        for (int i = threadIdx.x; i < kept; i += kSparqThreads)
          p.chosen[int64_t{view.list} * p.num_tokens + PlaceOf(tokens, i, chosen)] = tokens[i];
      }
    }
    const float mean = p.mean_value != nullptr ? p.mean_value[int64_t{view.list} * D + d] : 0.0f;
    __syncthreads();  // the rows are done with
    attention.Finish(heads, merged + warp * heads);
    __syncthreads();
    for (int at = threadIdx.x; at < heads * D; at += kSparqThreads) {
      const int h = at / D;
      float best, sum;
      float result = MergeWarps<D, kSparqWarps>(merged + h, heads, d, &best, &sum) / sum;
      if (p.mean_value != nullptr) {
        const float alpha = view.fixed.alpha[first + h];
        result = alpha * result + (1 - alpha) * mean;
      }
      Store(static_cast<T*>(x.o) + sequence * x.o_batch + (head + h) * x.o_head + d, result);
    }
    __syncthreads();
  }
}

template <typename T, int D>
__global__ void __launch_bounds__(kSparqThreads, 3) SparqKernel(const __grid_constant__ SparqParams p) {
  extern __shared__ __align__(128) char shared[];
  auto& fixed = *reinterpret_cast<SparqShared*>(shared);
  const SparqPlan& plan = p.plan;
  const DecodeOperands& x = p.x;
  const int span = static_cast<int>(blockIdx.x) % plan.num_spans, list = static_cast<int>(blockIdx.x) / plan.num_spans;
  const int sequence = list / x.num_kv_heads, kv_head = list % x.num_kv_heads, first = span * plan.span_tokens;
  const SpanView view{p,    fixed, reinterpret_cast<float*>(shared + plan.scores), list,
                      span, first, min(plan.span_tokens, x.seq_k - first),         plan.num_spans == 1};
  int* component = reinterpret_cast<int*>(shared + plan.component);
  T* weight = reinterpret_cast<T*>(shared + plan.weight);

  ChooseComponents<T, D>(p, list, component, weight, reinterpret_cast<float*>(shared + plan.exact_weight));
  const auto* fragments = reinterpret_cast<const uint2*>(weight);
  if (p.kt != nullptr) {
    const T* kt = static_cast<const T*>(p.kt) + sequence * p.kt_batch + kv_head * p.kt_head + first;
    if (plan.head_tiles == 1) {
      const auto* exact = reinterpret_cast<const float*>(shared + plan.exact_weight);
      if (x.group == 1) {
        ScoreFewHeads<T, 1>(p, kt, component, exact, view.tokens, view.scores);
      } else {
        ScoreFewHeads<T, 4>(p, kt, component, exact, view.tokens, view.scores);
      }
    } else {
      ScoreComponentRows<T>(p, kt, component, fragments, view.tokens, view.scores);
    }
  } else {
    const T* k = static_cast<const T*>(x.k) + sequence * x.k_batch + kv_head * x.k_head + first * x.k_row;
    ScoreWholeRows<T, D>(p, k, fragments, view.tokens, view.scores);
  }
  __syncthreads();
  NormaliseSpan(view);
  if (plan.clustered) ExchangeSoftmax(view);

  const CandidateList candidates{reinterpret_cast<uint64_t*>(shared + plan.list_key),
                                 reinterpret_cast<int*>(shared + plan.list_source)};
  const SpanSource source{view, min(view.tokens, x.seq_k - plan.local - first)};
  int found = CollectCandidates(source, plan.selected, plan.capacity, candidates, fixed.select);
  bool attend = true;
  if (!view.alone) {
    attend = PublishSpan(view, candidates, found);
    if (attend) {
      if (x.group == 1) MergeSoftmax(view);
      const int total = plan.num_spans * plan.capacity;
      const int64_t base = int64_t{list} * total;
      const MergeSource all{p.candidate_key + base, p.candidate_token + base, total,
                            32 - __clz((total + kSparqThreads - 1) / kSparqThreads)};
      found = CollectCandidates(all, plan.selected, plan.capacity, candidates, fixed.select);
    }
  }
  if (attend) {
    const int chosen = KeepLargest(candidates, found, plan.selected, reinterpret_cast<int*>(shared + plan.token),
                                   reinterpret_cast<int*>(shared + plan.source));
    AttendTokens<T, D>(view, shared, chosen);
  }
  if (plan.clustered) {
    __syncwarp();
    WaitForCluster();  // nobody may leave while others may still read its shared memory
  }
}

}  // namespace headscope::kernels::decode
