// SparQ's two launches. See kernels/cuda_decode.h for the method; this page is about the machine.
//
// Launch 1, one block per (span of tokens, batch * KV head). The bytes that must move are r * 2 per token, so everything else hides behind those
// loads: component rows are contiguous over tokens and a thread takes 8 tokens of each (16-byte loads). Scores go to shared memory, which keeps the
// register count, and so the number of blocks that hide each other's phases, where the memory system wants it. For a group of query heads the softmaxed scores are summed, which needs each
// head's normaliser over the *whole* sequence: the spans of one KV head form a thread-block cluster and exchange (max, sum) through distributed
// shared memory.
// Launch 2, one block per (batch * KV head): the exact top k among the spans' candidates, then attention over k rows; 128 rows of K and V are requested
// before the first is used, since latency, not bytes, is what launch 2 costs.
#pragma once

#include <cooperative_groups.h>

#include "decode/tensor_core.cuh"

namespace headscope::kernels::decode {

constexpr int kStride = kThreads * 8;  // tokens that one pass of the block covers
constexpr int kMaxRank = 128;
constexpr int kMaxKept = 1024;
constexpr int kMaxPasses = 4;

// Tokens of a block of launch 1: 4096, or more where the spans of one KV head would not fit a cluster of 16.
inline int SpanPasses(int seq_k, int group) { return group > 1 && seq_k > 16 * 2 * kStride ? 4 : 2; }

struct SparqParams {
  const void* q;
  const void* k;
  const void* v;
  const void* kt;  // component-major K, or null
  const float* mean_value;
  void* o;
  int32_t* chosen;  // may be null
  int64_t q_batch, q_head, k_batch, k_head, k_row, v_batch, v_head, v_row, kt_batch, kt_head, kt_component, o_batch, o_head;
  int32_t num_kv_heads, group, seq_k, num_spans, passes;
  int32_t rank, num_tokens, num_local;
  float scale;
  // scratch
  uint32_t* candidate_key;    // [lists, num_spans, num_tokens]
  int32_t* candidate_token;   // same
  float* candidate_score;     // [lists, num_spans, num_tokens, group]: group 1: scaled score; else the head's probability
  int32_t* candidate_count;   // [lists, num_spans]
  float2* span_softmax;       // [lists, num_spans]: (max, sum) for group 1
};

// The r components with the largest sum over the group of |q| (lower component first among equals), ascending; the queries scaled by 1 / temperature.
template <typename T, int D, int G, typename Shared>
__device__ __forceinline__ void ChooseComponents(const SparqParams& p, const T* q, Shared& shared) {
  for (int i = threadIdx.x; i < G * D; i += kThreads) shared.query[i / D][i % D] = ToFloat(q[(i / D) * p.q_head + i % D]);
  __syncthreads();
  const int d = threadIdx.x;
  float mine = 0;
  if (d < D) {
#pragma unroll
    for (int g = 0; g < G; ++g) mine += fabsf(shared.query[g][d]);
    shared.magnitude[d] = mine;
  }
  __syncthreads();
  int chosen = 0;
  if (d < D) {
    int better = 0;
#pragma unroll 8
    for (int j = 0; j < D; ++j) better += shared.magnitude[j] > mine || (shared.magnitude[j] == mine && j < d);
    chosen = better < p.rank;
  }
  int total;
  const int slot = BlockExclusiveSum(chosen, shared.counters, &total);
  if (chosen) shared.component[slot] = d;
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < G) {
    float top = 0, all = 0;
    for (int j = lane; j < D; j += 32) all += fabsf(shared.query[warp][j]);
    for (int j = lane; j < p.rank; j += 32) top += fabsf(shared.query[warp][shared.component[j]]);
    top = WarpSum(top);
    all = WarpSum(all);
    // Equation 9: sqrt(head_dim * |q_top|_1 / |q|_1); a zero query has equal scores whatever the temperature. The paper's attention scale is
    // head_dim^-0.5; another scale of the model multiplies in.
    const float temperature = all > 0 ? sqrtf(static_cast<float>(D) * top / all) : sqrtf(static_cast<float>(D));
    const float factor = p.scale * sqrtf(static_cast<float>(D)) / temperature;
    float* weight = reinterpret_cast<float*>(shared.weight);
    for (int j = lane; j < p.rank; j += 32) weight[j * ((G + 3) / 4 * 4) + warp] = shared.query[warp][shared.component[j]] * factor;
  }
  __syncthreads();
}

// Attends `kept` >= 1 tokens listed in shared memory and writes the output row of every query head of the group. `share` [kept][G] holds the
// approximate probability of each kept token, whose sum is alpha. `merged` [kWarps * G][D + 2] is scratch.
template <typename T, int D, int G>
__device__ __forceinline__ void AttendTokens(const SparqParams& p, int sequence, int kv_head, const int* tokens, const float* share, int kept,
                                             const float (*query)[D], float (*merged)[D + 2], float* alpha) {
  const T* k = static_cast<const T*>(p.k) + sequence * p.k_batch + kv_head * p.k_head;
  const T* v = static_cast<const T*>(p.v) + sequence * p.v_batch + kv_head * p.v_head;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  WarpAttention<T, D> attention;
  attention.query.Load(G, [&](int head, int component) { return query[head][component]; });
  attention.out.Clear();
  for (int base = warp * 16; base < kept; base += kWarps * 16) {
    attention.Step(k, p.k_row, v, p.v_row, p.scale, 0.0f, kept - base, [&](int t) { return tokens[min(base + t, kept - 1)]; });
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
  float magnitude[D];
  int component[kMaxRank];
  float4 weight[kMaxRank * ((G + 3) / 4)];  // [rank][G], padded to whole 16-byte words
  float reduce[kWarps];
  int counters[kWarps];
  uint64_t top_k[3 * kWarps];
  float2 softmax[G];  // this span's (max, sum), read by the other blocks of the cluster
  int tokens[kMaxKept];
  float share[kMaxKept * G];
  float alpha[G];
};
// Behind it: the scores of launch 1, and later, in the same place, the warps' partial outputs.
template <int D, int G>
constexpr size_t kMergedBytes = sizeof(float) * kWarps * G * (D + 2);
template <int D, int G>
constexpr size_t kFixedBytes = (sizeof(SparqShared<D, G>) + 15) / 16 * 16;

// With kt the block reads component rows; without it, whole rows of K against a query whose other components are zero.
// kFused: one span covers the sequence, and this block attends as well. The scores [G][kPasses * kStride] lie behind the fixed part of shared memory.
template <typename T, int D, int G, int kPasses, bool kFused>
__global__ void __launch_bounds__(kThreads, G <= 2 ? 3 : 2) SparqSelectKernel(const SparqParams p) {
  constexpr int kSpan = kPasses * kStride;
  constexpr int kPerThread = kPasses * 8;
  constexpr int kWords = (G + 3) / 4;
  extern __shared__ __align__(16) char shared_bytes[];
  auto& shared = *reinterpret_cast<SparqShared<D, G>*>(shared_bytes);
  float(*scores)[kSpan] = reinterpret_cast<float(*)[kSpan]>(shared_bytes + kFixedBytes<D, G>);
  auto merged = reinterpret_cast<float(*)[D + 2]>(shared_bytes + kFixedBytes<D, G>);
  const int span = blockIdx.x;
  const int64_t list = blockIdx.y;
  const int sequence = static_cast<int>(list / p.num_kv_heads), kv_head = static_cast<int>(list % p.num_kv_heads);
  const T* q = static_cast<const T*>(p.q) + sequence * p.q_batch + static_cast<int64_t>(kv_head) * G * p.q_head;
  ChooseComponents<T, D, G>(p, q, shared);

  const int first = span * kSpan;
  if (p.kt != nullptr) {
    const T* kt = static_cast<const T*>(p.kt) + sequence * p.kt_batch + kv_head * p.kt_head + first + threadIdx.x * 8;
    constexpr int kAhead = 8;
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) {
      // A group of 8 that starts past the end is not read; one that straddles it is (the stride is padded) and masked below.
      if (first + pass * kStride + static_cast<int>(threadIdx.x) * 8 >= p.seq_k) break;
      float acc[G][8] = {};
#pragma unroll 1
      for (int r = 0; r < p.rank; r += kAhead) {
        uint4 raw[kAhead];
#pragma unroll
        for (int a = 0; a < kAhead; ++a) raw[a] = LoadStreaming(kt + pass * kStride + shared.component[min(r + a, p.rank - 1)] * p.kt_component);
#pragma unroll
        for (int a = 0; a < kAhead; ++a) {
          float key[8];
          Unpack(raw[a], key, T());
#pragma unroll
          for (int word = 0; word < kWords; ++word) {
            // Rows past the rank are read again (above) and weigh nothing.
            const float4 w = r + a < p.rank ? shared.weight[(r + a) * kWords + word] : make_float4(0, 0, 0, 0);
            const float weights[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
            for (int g = 0; g < 4 && word * 4 + g < G; ++g) {
#pragma unroll
              for (int i = 0; i < 8; ++i) acc[word * 4 + g][i] += weights[g] * key[i];
            }
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
  } else {
    // Whole rows on the tensor cores; the query's other components are zero. (fp32 weights round to the element type here, unlike above.)
    float* masked = shared.share;  // [G][D]
    for (int i = threadIdx.x; i < G * D; i += kThreads) masked[i] = 0;
    __syncthreads();
    const float* weight = reinterpret_cast<const float*>(shared.weight);
    for (int i = threadIdx.x; i < G * p.rank; i += kThreads) masked[(i / p.rank) * D + shared.component[i % p.rank]] = weight[(i % p.rank) * kWords * 4 + i / p.rank];
    __syncthreads();
    QueryFragment<T, D> query;
    query.Load(G, [&](int head, int component) { return masked[head * D + component]; });
    const T* k = static_cast<const T*>(p.k) + sequence * p.k_batch + kv_head * p.k_head;
    const int warp = threadIdx.x / 32, i = (threadIdx.x % 32) / 4, j = threadIdx.x % 4;
    const int last = min(kSpan, p.seq_k - first) - 1;
    constexpr int kAhead = 4;
#pragma unroll 1
    for (int base = warp * 8 * kAhead; base <= last; base += kWarps * 8 * kAhead) {
      uint4 raw[kAhead][D / 32];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) LoadKeyTile<T, D>(raw[a], k + static_cast<int64_t>(first + min(base + a * 8 + i, last)) * p.k_row);
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        float c[4];
        ScoreTokens<T, D>(query, raw[a], c);
        if (i < G) *reinterpret_cast<float2*>(&scores[i][base + a * 8 + 2 * j]) = make_float2(c[0], c[1]);
      }
    }
    __syncthreads();
  }

  // From here on thread t owns, of every pass, the 8 tokens that it scored from component rows.
  auto token_of = [&](int i) { return first + (i / 8) * kStride + static_cast<int>(threadIdx.x) * 8 + i % 8; };
  auto score_of = [&](int g, int i) { return scores[g][(i / 8) * kStride + threadIdx.x * 8 + i % 8]; };

  // Softmax of the estimate. Group 1 ranks by the score itself and normalises when the candidates are merged; a group needs probabilities now.
  float2 whole[G];
#pragma unroll
  for (int g = 0; g < G; ++g) {
    float best = kNegativeInfinity;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if (token_of(i) < p.seq_k) best = fmaxf(best, score_of(g, i));
    }
    best = BlockMax(best, shared.reduce);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if (token_of(i) < p.seq_k) sum += __expf(score_of(g, i) - best);
    }
    sum = BlockSum(sum, shared.reduce);
    whole[g] = make_float2(best, sum);
    if (threadIdx.x == 0) shared.softmax[g] = whole[g];
  }
  if constexpr (G > 1 && !kFused) {
#if __CUDA_ARCH__ >= 900
    namespace cg = cooperative_groups;
    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();
#pragma unroll
    for (int g = 0; g < G; ++g) {
      // One lane a span; every warp does it for itself.
      const int lane = threadIdx.x % 32;
      const float2 theirs = lane < p.num_spans ? cluster.map_shared_rank(shared.softmax, lane)[g] : make_float2(kNegativeInfinity, 0.0f);
      const float best = WarpMax(theirs.x);
      whole[g] = make_float2(best, WarpSum(theirs.x == kNegativeInfinity ? 0.0f : theirs.y * __expf(theirs.x - best)));
    }
    cluster.sync();  // nobody may leave while its shared memory is being read
#endif
  }

  uint32_t keys[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int token = token_of(i);
    keys[i] = kNoToken;
    if (token >= p.seq_k) continue;
    float rank_by = 0;
    if constexpr (G == 1) {
      rank_by = score_of(0, i);
    } else {
#pragma unroll
      for (int g = 0; g < G; ++g) rank_by += __expf(score_of(g, i) - whole[g].x) / whole[g].y;
    }
    keys[i] = token >= p.seq_k - p.num_local ? kForced : OrderKey(rank_by);
  }
  int ties;
  const uint32_t threshold = TopKThreshold(keys, p.num_tokens, shared.top_k, &ties);

  // Compact in token order: pass by pass, threads in order; among keys equal to the threshold the earliest count.
  int written = 0, tied = 0;
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    int above = 0, equal = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      above += keys[pass * 8 + i] > threshold;
      equal += keys[pass * 8 + i] == threshold;
    }
    int equal_total, total;
    int equal_before = tied + BlockExclusiveSum(equal, shared.counters, &equal_total);
    const int mine = above + max(0, min(equal, ties - equal_before));
    int slot = written + BlockExclusiveSum(mine, shared.counters, &total);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t key = keys[pass * 8 + i];
      const bool keep = key > threshold || (key == threshold && equal_before < ties);
      equal_before += key == threshold;
      if (!keep) continue;
      const int64_t at = (list * p.num_spans + span) * p.num_tokens + slot;
      if constexpr (kFused) {
        shared.tokens[slot] = token_of(pass * 8 + i);
      } else {
        p.candidate_key[at] = key;
        p.candidate_token[at] = token_of(pass * 8 + i);
      }
#pragma unroll
      for (int g = 0; g < G; ++g) {
        const float score = score_of(g, pass * 8 + i);
        const float probability = __expf(score - whole[g].x) / whole[g].y;
        if constexpr (kFused) {
          shared.share[slot * G + g] = probability;
        } else {
          p.candidate_score[at * G + g] = G == 1 ? score : probability;
        }
      }
      ++slot;
    }
    written += total;
    tied += equal_total;
  }
  if constexpr (kFused) {
    __syncthreads();
    if (p.chosen != nullptr) {
      for (int i = threadIdx.x; i < written; i += kThreads) p.chosen[list * p.num_tokens + i] = shared.tokens[i];
    }
    AttendTokens<T, D, G>(p, sequence, kv_head, shared.tokens, shared.share, written, shared.query, merged, shared.alpha);
  } else {
    if (threadIdx.x == 0) {
      p.candidate_count[list * p.num_spans + span] = written;
      if constexpr (G == 1) p.span_softmax[list * p.num_spans + span] = whole[0];
    }
    LetDependentsStart();
  }
}

// kPerThread * kThreads >= num_spans * num_tokens candidates.
template <typename T, int D, int G, int kPerThread>
__global__ void __launch_bounds__(kThreads) SparqAttendKernel(const SparqParams p) {
  extern __shared__ __align__(16) char shared_bytes[];
  auto& shared = *reinterpret_cast<SparqShared<D, G>*>(shared_bytes);
  const int64_t list = blockIdx.x;
  const int sequence = static_cast<int>(list / p.num_kv_heads), kv_head = static_cast<int>(list % p.num_kv_heads);
  const T* q = static_cast<const T*>(p.q) + sequence * p.q_batch + static_cast<int64_t>(kv_head) * G * p.q_head;
  for (int i = threadIdx.x; i < G * D; i += kThreads) shared.query[i / D][i % D] = ToFloat(q[(i / D) * p.q_head + i % D]);

  WaitForPrevious();
  // Candidate c of thread t is number t * kPerThread + c, so that block order is token order.
  const int64_t base = list * p.num_spans * p.num_tokens;
  uint32_t keys[kPerThread];
#pragma unroll
  for (int c = 0; c < kPerThread; ++c) {
    const int number = threadIdx.x * kPerThread + c;
    const int span = number / p.num_tokens;
    keys[c] = kNoToken;
    if (span < p.num_spans && number - span * p.num_tokens < p.candidate_count[list * p.num_spans + span]) keys[c] = p.candidate_key[base + number];
  }
  float2 whole = make_float2(0, 1);
  if constexpr (G == 1) {
    float best = kNegativeInfinity, sum = 0;
    for (int span = threadIdx.x; span < p.num_spans; span += kThreads) best = fmaxf(best, p.span_softmax[list * p.num_spans + span].x);
    best = BlockMax(best, shared.reduce);
    for (int span = threadIdx.x; span < p.num_spans; span += kThreads) {
      const float2 theirs = p.span_softmax[list * p.num_spans + span];
      if (theirs.x != kNegativeInfinity) sum += theirs.y * __expf(theirs.x - best);
    }
    whole = make_float2(best, BlockSum(sum, shared.reduce));
  }
  int ties;
  const uint32_t threshold = TopKThreshold(keys, p.num_tokens, shared.top_k, &ties);
  int above = 0, equal = 0;
#pragma unroll
  for (int c = 0; c < kPerThread; ++c) {
    above += keys[c] > threshold;
    equal += keys[c] == threshold;
  }
  int total, kept;
  int equal_before = BlockExclusiveSum(equal, shared.counters, &total);
  const int mine = above + max(0, min(equal, ties - equal_before));
  int slot = BlockExclusiveSum(mine, shared.counters, &kept);
#pragma unroll
  for (int c = 0; c < kPerThread; ++c) {
    const bool keep = keys[c] > threshold || (keys[c] == threshold && keys[c] != kNoToken && equal_before < ties);
    equal_before += keys[c] == threshold;
    if (!keep) continue;
    const int64_t at = base + threadIdx.x * kPerThread + c;
    shared.tokens[slot] = p.candidate_token[at];
#pragma unroll
    for (int g = 0; g < G; ++g) {
      const float score = p.candidate_score[at * G + g];
      shared.share[slot * G + g] = G == 1 ? __expf(score - whole.x) / whole.y : score;
    }
    ++slot;
  }
  __syncthreads();
  if (p.chosen != nullptr) {
    for (int i = threadIdx.x; i < kept; i += kThreads) p.chosen[list * p.num_tokens + i] = shared.tokens[i];
  }
  auto merged = reinterpret_cast<float(*)[D + 2]>(shared_bytes + kFixedBytes<D, G>);
  AttendTokens<T, D, G>(p, sequence, kv_head, shared.tokens, shared.share, kept, shared.query, merged, shared.alpha);
}

}  // namespace headscope::kernels::decode
