// SparQ in one launch. See kernels/cuda_decode.h for the method; this page is about the machine.
//
// One block per (span of tokens, batch * KV head) makes the approximate scores of its span and keeps the span's best k;
// the block that finishes last of a KV head (a counter tells) merges the spans' candidates into the exact top k and
// attends them, while other heads' spans still stream. The bytes that must move are 2 r per token, so everything else
// hides behind those loads: component rows are contiguous over tokens and a thread takes 8 tokens of each (16-byte
// loads); scores go to shared memory, which keeps the register count, and so the number of blocks that hide each
// other's phases, where the memory system wants it. For a group of query heads the softmaxed scores are summed, which
// needs each head's normaliser over the *whole* sequence: the spans of one KV head then form a thread-block cluster and
// exchange (max, sum) through distributed shared memory.
#pragma once

#include <cooperative_groups.h>

#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

constexpr int kStride = kThreads * 8;  // tokens that one pass of the block covers
constexpr int kMaxRank = 128;
constexpr int kMaxKept = 1024;
constexpr int kMaxPasses = 4;

// Tokens of a block of launch 1: 4096, or more where the spans of one KV head would not fit a cluster of 16.
inline int SpanPasses(int seq_k, int group) {
  return group > 1 && seq_k > 16 * 2 * kStride ? 4 : 2;
}

struct SparqParams {
  const void* q;
  const void* k;
  const void* v;
  const void* kt;  // component-major K, or null
  const float* mean_value;
  void* o;
  int32_t* chosen;  // may be null
  int64_t q_batch, q_head, k_batch, k_head, k_row, v_batch, v_head, v_row, kt_batch, kt_head, kt_component, o_batch,
      o_head;
  int32_t num_kv_heads, group, seq_k, num_spans, passes;
  int32_t rank, num_tokens, num_local;
  int32_t capacity;  // candidates that a span may leave, >= num_tokens
  float scale;
  // scratch
  uint32_t* candidate_key;   // [lists, num_spans, capacity]
  int32_t* candidate_token;  // same
  float* candidate_score;    // [lists, num_spans, capacity, group]: group 1: scaled score; else the head's probability
  uint32_t* finished;        // [lists], zero between calls: spans that have left their candidates
  float2* span_softmax;      // [lists, num_spans]: (max, sum) for group 1
};

// The r components with the largest sum over the group of |q| (lower component first among equals), ascending; the
// queries scaled by 1 / temperature.
template <typename T, int D, int G, typename Shared>
__device__ __forceinline__ void ChooseComponents(const SparqParams& p, const T* q, Shared& shared) {
  for (int i = threadIdx.x; i < G * D; i += kThreads)
    shared.query[i / D][i % D] = ToFloat(q[(i / D) * p.q_head + i % D]);
  __syncthreads();
  const int d = threadIdx.x;
  float mine = 0;
  if (d < D) {
#pragma unroll
    for (int g = 0; g < G; ++g) mine += fabsf(shared.query[g][d]);
    reinterpret_cast<float*>(shared.magnitude)[d] = mine;
  }
  __syncthreads();
  int chosen = 0;
  if (d < D) {
    int better = 0;
#pragma unroll 4
    for (int j = 0; j < D; j += 4) {
      const float4 four = shared.magnitude[j / 4];
      better += (four.x > mine || (four.x == mine && j < d)) + (four.y > mine || (four.y == mine && j + 1 < d)) +
                (four.z > mine || (four.z == mine && j + 2 < d)) + (four.w > mine || (four.w == mine && j + 3 < d));
    }
    chosen = better < p.rank;
  }
  int total;
  const int slot = BlockExclusiveSum(chosen, shared.counters, &total);
  const int padded = (p.rank + 15) / 16 * 16;
  if (chosen) shared.component[slot] = d;
  if (chosen && slot == p.rank - 1) {
    for (int j = p.rank; j < padded; ++j) shared.component[j] = d;
  }
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < G) {
    float top = 0, all = 0;
    for (int j = lane; j < D; j += 32) all += fabsf(shared.query[warp][j]);
    for (int j = lane; j < p.rank; j += 32) top += fabsf(shared.query[warp][shared.component[j]]);
    top = WarpSum(top);
    all = WarpSum(all);
    // Equation 9: sqrt(head_dim * |q_top|_1 / |q|_1); a zero query has equal scores whatever the temperature. The
    // paper's attention scale is head_dim^-0.5; another scale of the model multiplies in.
    const float temperature = all > 0 ? sqrtf(static_cast<float>(D) * top / all) : sqrtf(static_cast<float>(D));
    const float factor = p.scale * sqrtf(static_cast<float>(D)) / temperature;
    for (int j = lane; j < padded; j += 32)
      shared.weight[warp][j] = j < p.rank ? shared.query[warp][shared.component[j]] * factor : 0.0f;
  }
  __syncthreads();
}

// Attends `kept` >= 1 tokens listed in shared memory and writes the output row of every query head of the group.
// `share` [kept][G] holds the approximate probability of each kept token, whose sum is alpha. `merged` [kWarps * G][D +
// 2] is scratch.
template <typename T, int D, int G>
__device__ __noinline__ void AttendTokens(const SparqParams& p, int sequence, int kv_head, const int* tokens,
                                          const float* share, int kept, const float (*query)[D], float (*merged)[D + 2],
                                          float* alpha) {
  const T* k = static_cast<const T*>(p.k) + sequence * p.k_batch + kv_head * p.k_head;
  const T* v = static_cast<const T*>(p.v) + sequence * p.v_batch + kv_head * p.v_head;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  WarpAttention<T, D> attention;
  attention.query.Load(G, [&](int head, int component) { return query[head][component]; });
  attention.out.Clear();
  for (int base = warp * 16; base < kept; base += kWarps * 16) {
    attention.Step(k, p.k_row, v, p.v_row, p.scale, 0.0f, kept - base,
                   [&](int t) { return tokens[min(base + t, kept - 1)]; });
  }
  attention.Finish(G, merged + warp * G);
  if (warp < G) {
    float sum = 0;
    for (int slot = lane; slot < kept; slot += 32) sum += share[slot * G + warp];
    sum = WarpSum(sum);
    if (lane == 0) alpha[warp] = fminf(sum, 1.0f);  // rounding may lift the sum of shares above 1
  }
  __syncthreads();
  for (int at = threadIdx.x; at < G * D; at += kThreads) {
    const int g = at / D, d = at % D;
    float best, sum;
    float result = MergeWarps<D>(merged + g, G, d, &best, &sum) / sum;
    if (p.mean_value != nullptr) {
      const float mean = p.mean_value[(static_cast<int64_t>(sequence) * p.num_kv_heads + kv_head) * D + d];
      result = alpha[g] * result + (1 - alpha[g]) * mean;
    }
    T* o = static_cast<T*>(p.o) + sequence * p.o_batch + static_cast<int64_t>(kv_head * G + g) * p.o_head;
    Store(o + d, result);
  }
}

template <int D, int G>
struct SparqShared {
  float query[G][D];
  float4 magnitude[D / 4];
  int component[kMaxRank];    // ascending; padded to a multiple of 16 by repeating the last
  float weight[G][kMaxRank];  // padded with zeros
  float reduce[kWarps];
  int counters[kWarps];
  uint64_t top_k[3 * kWarps];
  float2 softmax[G];  // this span's (max, sum), read by the other blocks of the cluster
  int is_last;
  uint32_t final_key[kThreads];  // the last few candidates, ranked against each other
  int tokens[kMaxKept];
  float share[kMaxKept * G];
  float alpha[G];
};
// Behind it: the scores of the span, and later, in the same place, the warps' partial outputs.
template <int D, int G>
constexpr size_t kMergedBytes = sizeof(float) * kWarps* G*(D + 2);
template <int D, int G>
constexpr size_t kFixedBytes = (sizeof(SparqShared<D, G>) + 15) / 16 * 16;

// Scores of the span from component rows. A thread takes 8 tokens of a pass; a group of 8 that starts past the end is
// not read, one that straddles it is (the stride is padded), and whoever reads the scores knows the end.
template <typename T, int D, int G, int kPasses, typename Shared>
__device__ __forceinline__ void ScoreComponentRows(const SparqParams& p, const T* kt, int first, const Shared& shared,
                                                   float (*scores)[kPasses * kStride]) {
  constexpr int kAhead = 8;
  kt += first + threadIdx.x * 8;
  const int padded = (p.rank + kAhead - 1) / kAhead * kAhead;  // rows past the rank repeat the last and weigh nothing
#pragma unroll 1
  for (int pass = 0; pass < kPasses; ++pass) {
    if (first + pass * kStride + static_cast<int>(threadIdx.x) * 8 >= p.seq_k) break;
    float acc[G][8] = {};
#pragma unroll 1
    for (int r = 0; r < padded; r += kAhead) {
      uint4 raw[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        raw[a] = LoadStreaming(kt + pass * kStride + shared.component[r + a] * p.kt_component);
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        float key[8];
        Unpack(raw[a], key, T());
#pragma unroll
        for (int g = 0; g < G; ++g) {
          const float weight = shared.weight[g][r + a];
#pragma unroll
          for (int i = 0; i < 8; ++i) acc[g][i] += weight * key[i];
        }
      }
    }
#pragma unroll
    for (int g = 0; g < G; ++g) {
      float4* to = reinterpret_cast<float4*>(&scores[g][pass * kStride + threadIdx.x * 8]);
      to[0] = make_float4(acc[g][0], acc[g][1], acc[g][2], acc[g][3]);
      to[1] = make_float4(acc[g][4], acc[g][5], acc[g][6], acc[g][7]);
    }
  }
}

// The same from whole rows of K; the query's other components are zero.
template <typename T, int D, int G, int kPasses, typename Shared>
__device__ __forceinline__ void ScoreWholeRows(const SparqParams& p, const T* k, int first, Shared& shared,
                                               float (*scores)[kPasses * kStride]) {
  constexpr int kAhead = 4;
  float* masked = shared.share;  // [G][D]
  for (int i = threadIdx.x; i < G * D; i += kThreads) masked[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < G * p.rank; i += kThreads)
    masked[(i / p.rank) * D + shared.component[i % p.rank]] = shared.weight[i / p.rank][i % p.rank];
  __syncthreads();
  QueryFragment<T, D> high, low;
  high.Load(G, [&](int head, int component) { return masked[head * D + component]; });
  low.Load(G, [&](int head, int component) {
    return masked[head * D + component] - Rounded<T>(masked[head * D + component]);
  });
  const int warp = threadIdx.x / 32, i = (threadIdx.x % 32) / 4, j = threadIdx.x % 4;
  const int last = min(kPasses * kStride, p.seq_k - first) - 1;
#pragma unroll 1
  for (int base = warp * 8 * kAhead; base <= last; base += kWarps * 8 * kAhead) {
    uint4 raw[kAhead][D / 32];
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
      LoadKeyTile<T, D>(raw[a], k + static_cast<int64_t>(first + min(base + a * 8 + i, last)) * p.k_row);
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      float c[4], rest[4];
      ScoreTokens<T, D>(high, raw[a], c);
      ScoreTokens<T, D>(low, raw[a], rest);
      if (i < G)
        *reinterpret_cast<float2*>(&scores[i][base + a * 8 + 2 * j]) = make_float2(c[0] + rest[0], c[1] + rest[1]);
    }
  }
}

// Which of the block's keys (N a thread) are kept: slot[i] gets the place of keys[i] among the kept ones in block
// order, or -1. Returns their number: at least k and at most `most` (most >= k), or all tokens where there are fewer.
// most == k: exactly the k largest, the earlier in block order among equals; then a loose threshold comes first and its
// few survivors are ranked against each other.
template <int N, bool kLinear, int D, int G>
__device__ __forceinline__ int SelectTopK(const uint32_t (&keys)[N], int k, int most, int num_tokens,
                                          SparqShared<D, G>& shared, int (&slot)[N]) {
  int ties;
  const bool rank_survivors = most == k && k <= kThreads / 2;
  const uint32_t threshold =
      most > k || rank_survivors
          ? LooseThreshold<N, kLinear>(keys, k, rank_survivors ? kThreads : most, num_tokens, shared.top_k, &ties)
          : ExactThreshold(keys, k, shared.top_k, &ties);
  int above = 0, equal = 0, total;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    above += keys[i] > threshold;
    equal += keys[i] == threshold;
  }
  __syncthreads();
  int before = BlockExclusiveSum((above << 16) | equal, shared.counters, &total);  // both fit: N * kThreads <= 16384
  const int survivors = (total >> 16) + min(total & 0xffff, ties);
  int equal_before = before & 0xffff, place = (before >> 16) + min(equal_before, ties);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const bool keep = keys[i] > threshold || (keys[i] == threshold && equal_before < ties);
    equal_before += keys[i] == threshold;
    slot[i] = keep ? place++ : -1;
  }
  if (survivors <= most) return survivors;
    // More than k passed the loose threshold, at most one a thread.
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (slot[i] >= 0) shared.final_key[slot[i]] = keys[i];
  }
  __syncthreads();
  const int me = threadIdx.x;
  int rank = 0;
  if (me < survivors) {
    const uint32_t mine = shared.final_key[me];
    for (int other = 0; other < survivors; ++other)
      rank += shared.final_key[other] > mine || (shared.final_key[other] == mine && other < me);
  }
  const bool keep = me < survivors && rank < k;
  int kept;
  const int new_place = BlockExclusiveSum(keep, shared.counters, &kept);
  shared.final_key[me] = keep ? static_cast<uint32_t>(new_place)
                              : 0xffffffffu;  // BlockExclusiveSum's barriers separate this from the reads above
  __syncthreads();
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (slot[i] >= 0) slot[i] = static_cast<int>(shared.final_key[slot[i]]);
  }
  return kept;
}

// Merges the candidates of a KV head's spans: the exact top k into shared.tokens and shared.share. Returns their
// number. Candidate c of thread t is number t * N + c, so that block order is token order. N * kThreads >= num_spans *
// capacity.
template <int D, int G, int N>
__device__ __noinline__ int MergeCandidates(const SparqParams& p, int64_t list, SparqShared<D, G>& shared) {
  const int64_t base = list * p.num_spans * p.capacity;
  const int total_candidates = p.num_spans * p.capacity;
  uint32_t keys[N];
#pragma unroll
  for (int c = 0; c < N; ++c) {
    const int number = threadIdx.x * N + c;
    keys[c] = number < total_candidates ? __ldcg(p.candidate_key + base + number) : kNoToken;
  }
  float2 whole = make_float2(0, 1);
  if constexpr (G == 1) {
    float best = kNegativeInfinity, sum = 0;
    for (int span = threadIdx.x; span < p.num_spans; span += kThreads)
      best = fmaxf(best, __ldcg(p.span_softmax + list * p.num_spans + span).x);
    best = BlockMax(best, shared.reduce);
    for (int span = threadIdx.x; span < p.num_spans; span += kThreads) {
      const float2 theirs = __ldcg(p.span_softmax + list * p.num_spans + span);
      if (theirs.x != kNegativeInfinity) sum += theirs.y * __expf(theirs.x - best);
    }
    whole = make_float2(best, 1.0f / BlockSum(sum, shared.reduce));
  }
  int slot[N];
  const int kept = SelectTopK<N, G == 1>(keys, p.num_tokens, p.num_tokens, total_candidates, shared, slot);
#pragma unroll
  for (int c = 0; c < N; ++c) {
    if (slot[c] < 0) continue;
    const int64_t at = base + threadIdx.x * N + c;
    shared.tokens[slot[c]] = __ldcg(p.candidate_token + at);
#pragma unroll
    for (int g = 0; g < G; ++g) {
      const float score = __ldcg(p.candidate_score + at * G + g);
      shared.share[slot[c] * G + g] = G == 1 ? __expf(score - whole.x) * whole.y : score;
    }
  }
  __syncthreads();
  return kept;
}

// The scores [G][kPasses * kStride] lie behind the fixed part of shared memory.
template <typename T, int D, int G, int kPasses>
__global__ void __launch_bounds__(kThreads, 2) SparqKernel(const SparqParams p) {
  constexpr int kSpan = kPasses * kStride;
  extern __shared__ __align__(16) char shared_bytes[];
  auto& shared = *reinterpret_cast<SparqShared<D, G>*>(shared_bytes);
  auto scores = reinterpret_cast<float(*)[kSpan]>(shared_bytes + kFixedBytes<D, G>);
  auto merged = reinterpret_cast<float(*)[D + 2]>(shared_bytes + kFixedBytes<D, G>);
  const int span = blockIdx.x;
  const int64_t list = blockIdx.y;
  const int sequence = static_cast<int>(list / p.num_kv_heads), kv_head = static_cast<int>(list % p.num_kv_heads);
  const T* q = static_cast<const T*>(p.q) + sequence * p.q_batch + static_cast<int64_t>(kv_head) * G * p.q_head;
  const int first = span * kSpan;
  const bool one_span = p.num_spans == 1;

  ChooseComponents<T, D, G>(p, q, shared);
  if (p.kt != nullptr) {
    ScoreComponentRows<T, D, G, kPasses>(p, static_cast<const T*>(p.kt) + sequence * p.kt_batch + kv_head * p.kt_head,
                                         first, shared, scores);
  } else {
    ScoreWholeRows<T, D, G, kPasses>(p, static_cast<const T*>(p.k) + sequence * p.k_batch + kv_head * p.k_head, first,
                                     shared, scores);
  }
  __syncthreads();

  // From here on thread t owns 8 tokens of every pass; -inf stands for "past the end".
  auto token_of = [&](int pass, int i) { return first + pass * kStride + static_cast<int>(threadIdx.x) * 8 + i; };
  auto read_scores = [&](int g, int pass, float(&x)[8]) {
    const float4* from = reinterpret_cast<const float4*>(&scores[g][pass * kStride + threadIdx.x * 8]);
    const float4 a = from[0], b = from[1];
    const float values[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = token_of(pass, i) < p.seq_k ? values[i] : kNegativeInfinity;
  };

  // Softmax of the estimate. Group 1 ranks by the score itself and normalises when the candidates are merged; a group
  // needs probabilities now.
  float2 whole[G];  // max, 1 / sum
#pragma unroll
  for (int g = 0; g < G; ++g) {
    float best = kNegativeInfinity, sum = 0;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      float x[8];
      read_scores(g, pass, x);
      float higher = best;
#pragma unroll
      for (int i = 0; i < 8; ++i) higher = fmaxf(higher, x[i]);
      if (higher == kNegativeInfinity) continue;
      sum *= __expf(best - higher);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += __expf(x[i] - higher);
      best = higher;
    }
    const float block_best = BlockMax(best, shared.reduce);
    sum = BlockSum(best == kNegativeInfinity ? 0.0f : sum * __expf(best - block_best), shared.reduce);
    whole[g] = make_float2(block_best, 1.0f / sum);
    if (threadIdx.x == 0) {
      shared.softmax[g] = make_float2(block_best, sum);
      if (G == 1 && !one_span) p.span_softmax[list * p.num_spans + span] = make_float2(block_best, sum);
    }
  }
  if constexpr (G > 1) {
#if __CUDA_ARCH__ >= 900
    if (!one_span) {
      namespace cg = cooperative_groups;
      cg::cluster_group cluster = cg::this_cluster();
      cluster.sync();
#pragma unroll
      for (int g = 0; g < G; ++g) {
        const int lane = threadIdx.x % 32;  // one lane a span; every warp does it for itself
        const float2 theirs = lane < p.num_spans ? cluster.map_shared_rank(shared.softmax, lane)[g]
                                                 : make_float2(kNegativeInfinity, 0.0f);
        const float best = WarpMax(theirs.x);
        whole[g] = make_float2(
            best, 1.0f / WarpSum(theirs.x == kNegativeInfinity ? 0.0f : theirs.y * __expf(theirs.x - best)));
      }
      cluster.sync();  // nobody may leave while its shared memory is being read
    }
#endif
  }

  uint32_t keys[kPasses * 8];
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    float rank_by[8] = {};
#pragma unroll
    for (int g = 0; g < G; ++g) {
      float x[8];
      read_scores(g, pass, x);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if constexpr (G == 1) {
          rank_by[i] = x[i];
        } else {
          rank_by[i] += __expf(x[i] - whole[g].x) * whole[g].y;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int token = token_of(pass, i);
      keys[pass * 8 + i] = token >= p.seq_k                 ? kNoToken
                           : token >= p.seq_k - p.num_local ? kForced
                                                            : OrderKey(rank_by[i]);
    }
  }
  // A span alone keeps exactly k; one of several keeps k to `capacity` and leaves exactness to the merge. Places are
  // given pass by pass, so that they are in token order (block order is not: a thread's keys come from every pass).
  int slot[kPasses * 8];
  SelectTopK<kPasses * 8, G == 1>(keys, p.num_tokens, one_span ? p.num_tokens : p.capacity, min(kSpan, p.seq_k - first),
                                  shared, slot);
  int kept = 0;
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    int mine = 0, total;
#pragma unroll
    for (int i = 0; i < 8; ++i) mine += slot[pass * 8 + i] >= 0;
    __syncthreads();
    int place = kept + BlockExclusiveSum(mine, shared.counters, &total);
    kept += total;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (slot[pass * 8 + i] < 0) continue;
      const int64_t at = (list * p.num_spans + span) * p.capacity + place;
      if (one_span) {
        shared.tokens[place] = token_of(pass, i);
      } else {
        p.candidate_key[at] = keys[pass * 8 + i];
        p.candidate_token[at] = token_of(pass, i);
      }
#pragma unroll
      for (int g = 0; g < G; ++g) {
        const float score = scores[g][pass * kStride + threadIdx.x * 8 + i];
        if (one_span) {
          shared.share[place * G + g] = __expf(score - whole[g].x) * whole[g].y;
        } else {
          p.candidate_score[at * G + g] = G == 1 ? score : __expf(score - whole[g].x) * whole[g].y;
        }
      }
      ++place;
    }
  }

  if (!one_span) {
    for (int slot = kept + threadIdx.x; slot < p.capacity; slot += kThreads)
      p.candidate_key[(list * p.num_spans + span) * p.capacity + slot] = kNoToken;
    __threadfence();  // the candidates before the count, for whoever reads them
    __syncthreads();
    if (threadIdx.x == 0) shared.is_last = atomicAdd(p.finished + list, 1u) + 1 == static_cast<uint32_t>(p.num_spans);
    __syncthreads();
    if (!shared.is_last) return;
    __threadfence();
    if (threadIdx.x == 0) p.finished[list] = 0;  // ready for the next call
    const int candidates = p.num_spans * p.capacity;
    kept = candidates <= 16 * kThreads ? MergeCandidates<D, G, 16>(p, list, shared)
                                       : MergeCandidates<D, G, 64>(p, list, shared);
  }
  __syncthreads();
  if (p.chosen != nullptr) {
    for (int i = threadIdx.x; i < kept; i += kThreads) p.chosen[list * p.num_tokens + i] = shared.tokens[i];
  }
  AttendTokens<T, D, G>(p, sequence, kv_head, shared.tokens, shared.share, kept, shared.query, merged, shared.alpha);
}

}  // namespace headscope::kernels::decode
