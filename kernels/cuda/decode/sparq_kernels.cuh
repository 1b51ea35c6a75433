// SparQ's two launches. See kernels/cuda_decode.h for the method; this page is about the machine.
//
// Launch 1, one block per (span of tokens, batch * KV head). The bytes that must move are r * 2 per token, so everything else hides behind those
// loads: component rows are contiguous over tokens, each thread owns 16 tokens of the span in two groups of 8 (16-byte loads) and keeps their
// scores in registers, where the top-k search finds them again. For a group of query heads the softmaxed scores are summed, which needs each
// head's normaliser over the *whole* sequence: the spans of one KV head form a thread-block cluster and exchange (max, sum) through distributed
// shared memory.
// Launch 2, one block per (batch * KV head): the exact top k among the spans' candidates, then attention over k rows. All K and V rows of a round are
// requested before the first is used, since the round's latency, not its bytes, is what launch 2 costs.
#pragma once

#include <cooperative_groups.h>

#include "decode/decode_common.cuh"

namespace headscope::kernels::decode {

constexpr int kTokensPerThread = 16;
constexpr int kSpan = kThreads * kTokensPerThread;  // tokens of a block of launch 1
constexpr int kMaxRank = 128;
constexpr int kMaxKept = 1024;

struct SparqParams {
  const void* q;
  const void* k;
  const void* v;
  const void* kt;  // component-major K, or null
  const float* mean_value;
  void* o;
  int32_t* chosen;  // may be null
  int64_t q_batch, q_head, k_batch, k_head, k_row, v_batch, v_head, v_row, kt_batch, kt_head, kt_component, o_batch, o_head;
  int32_t num_kv_heads, group, seq_k, num_spans;
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
// Shared: query [G][D] raw fp32, magnitude [D], component [r], weight [G][r].
template <typename T, int D, int G>
__device__ __forceinline__ void ChooseComponents(const SparqParams& p, const T* q, int64_t q_head, float (*query)[D], float* magnitude, int* component,
                                                 float (*weight)[kMaxRank], float* scratch) {
  for (int i = threadIdx.x; i < G * D; i += kThreads) query[i / D][i % D] = ToFloat(q[(i / D) * q_head + i % D]);
  __syncthreads();
  const int d = threadIdx.x;
  if (d < D) {
    float sum = 0;
#pragma unroll
    for (int g = 0; g < G; ++g) sum += fabsf(query[g][d]);
    magnitude[d] = sum;
  }
  __syncthreads();
  int chosen = 0;
  if (d < D) {
    int better = 0;
    const float mine = magnitude[d];
    for (int j = 0; j < D; ++j) better += magnitude[j] > mine || (magnitude[j] == mine && j < d);
    chosen = better < p.rank;
  }
  int total;
  const int slot = BlockExclusiveSum(chosen, reinterpret_cast<int*>(scratch), &total);
  if (chosen) component[slot] = d;
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < G) {
    float top = 0, all = 0;
    for (int j = lane; j < D; j += 32) all += fabsf(query[warp][j]);
    for (int j = lane; j < p.rank; j += 32) top += fabsf(query[warp][component[j]]);
    top = WarpSum(top);
    all = WarpSum(all);
    // Equation 9: sqrt(head_dim * |q_top|_1 / |q|_1); a zero query has equal scores whatever the temperature.
    const float temperature = all > 0 ? sqrtf(static_cast<float>(D) * top / all) : sqrtf(static_cast<float>(D));
    // The paper's attention scale is head_dim^-0.5; another scale of the model multiplies in.
    const float factor = p.scale * sqrtf(static_cast<float>(D)) / temperature;
    for (int j = lane; j < p.rank; j += 32) weight[warp][j] = query[warp][component[j]] * factor;
  }
  __syncthreads();
}

// Attends the tokens listed in shared memory and writes the output row of every query head of the group. `share` [G][kept] holds the approximate
// probability of each kept token, whose sum is alpha.
template <typename T, int D, int G>
__device__ __forceinline__ void AttendTokens(const SparqParams& p, int sequence, int kv_head, const int* tokens, const float* share, int share_stride,
                                             int kept, float (*query)[D], float (*partial)[D + 4]) {
  constexpr int kLanes = D / 8;                    // lanes that hold one row, 8 values each
  constexpr int kRowsPerStep = kThreads / kLanes;  // rows that the block reads at once
  constexpr int kSteps = 128 / kRowsPerStep;       // 128 rows a round, all of them in flight
  const T* k = static_cast<const T*>(p.k) + sequence * p.k_batch + kv_head * p.k_head;
  const T* v = static_cast<const T*>(p.v) + sequence * p.v_batch + kv_head * p.v_head;
  const int group_lane = threadIdx.x % kLanes, row_slot = threadIdx.x / kLanes;
  float q[G][8], acc[G][8], row_max[G], row_sum[G], alpha[G];
#pragma unroll
  for (int g = 0; g < G; ++g) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      q[g][i] = query[g][group_lane * 8 + i] * p.scale;
      acc[g][i] = 0;
    }
    row_max[g] = kNegativeInfinity;
    row_sum[g] = 0;
    alpha[g] = 0;
  }
  for (int base = 0; base < kept; base += 128) {
    uint4 k_raw[kSteps], v_raw[kSteps];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int slot = base + step * kRowsPerStep + row_slot;
      const int64_t token = slot < kept ? tokens[slot] : tokens[0];
      k_raw[step] = LoadStreaming(k + token * p.k_row + group_lane * 8);
      v_raw[step] = LoadStreaming(v + token * p.v_row + group_lane * 8);
    }
    float score[kSteps][G];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      float key[8];
      Unpack(k_raw[step], key, T());
#pragma unroll
      for (int g = 0; g < G; ++g) {
        float dot = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) dot += q[g][i] * key[i];
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, offset);
        score[step][g] = base + step * kRowsPerStep + row_slot < kept ? dot : kNegativeInfinity;
      }
    }
#pragma unroll
    for (int g = 0; g < G; ++g) {
      float best = row_max[g];
#pragma unroll
      for (int step = 0; step < kSteps; ++step) best = fmaxf(best, score[step][g]);
      if (best == kNegativeInfinity) continue;  // this row slot has had no token yet: -inf - -inf is not a number
      const float rescale = __expf(row_max[g] - best);
      row_sum[g] *= rescale;
#pragma unroll
      for (int i = 0; i < 8; ++i) acc[g][i] *= rescale;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const float weight = __expf(score[step][g] - best);
        row_sum[g] += weight;
        float value[8];
        Unpack(v_raw[step], value, T());
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[g][i] += weight * value[i];
        const int slot = base + step * kRowsPerStep + row_slot;
        if (slot < kept) alpha[g] += share[slot * share_stride + g];
      }
      row_max[g] = best;
    }
  }
  // Merge the row slots: each holds (max, sum, alpha, acc) of its tokens.
#pragma unroll
  for (int g = 0; g < G; ++g) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) partial[row_slot][group_lane * 8 + i] = acc[g][i];
    if (group_lane == 0) {
      partial[row_slot][D] = row_max[g];
      partial[row_slot][D + 1] = row_sum[g];
      partial[row_slot][D + 2] = alpha[g];
    }
    __syncthreads();
    if (threadIdx.x < D) {
      float best = kNegativeInfinity;
#pragma unroll
      for (int s = 0; s < kRowsPerStep; ++s) best = fmaxf(best, partial[s][D]);
      float sum = 0, total = 0, mass = 0;
#pragma unroll
      for (int s = 0; s < kRowsPerStep; ++s) {
        const float factor = partial[s][D] == kNegativeInfinity ? 0.0f : __expf(partial[s][D] - best);
        sum += partial[s][D + 1] * factor;
        total += partial[s][threadIdx.x] * factor;
        mass += partial[s][D + 2];
      }
      float result = total / sum;
      if (p.mean_value != nullptr) {
        mass = fminf(fmaxf(mass, 0.0f), 1.0f);  // rounding may lift the sum of shares above 1
        const float mean = p.mean_value[(static_cast<int64_t>(sequence) * p.num_kv_heads + kv_head) * D + threadIdx.x];
        result = mass * result + (1 - mass) * mean;
      }
      T* o = static_cast<T*>(p.o) + sequence * p.o_batch + static_cast<int64_t>(kv_head * G + g) * p.o_head;
      Store(o + threadIdx.x, result);
    }
  }
}

template <typename T, int D, int G>
struct SparqShared {
  float query[G][D];
  float magnitude[D];
  int component[kMaxRank];
  float weight[G][kMaxRank];
  float reduce[kWarps];
  int counters[3 * kWarps];
  float2 softmax[G];  // this span's (max, sum), read by the other blocks of the cluster
  int tokens[kMaxKept];
  float share[kMaxKept * G];
  float partial[kThreads / (D / 8)][D + 4];
};

// With kt the block reads component rows; without it, whole rows of K against a query whose other components are zero.
// kFused: one span covers the sequence, and this block attends as well.
template <typename T, int D, int G, bool kFused>
__global__ void __launch_bounds__(kThreads) SparqSelectKernel(const SparqParams p) {
  extern __shared__ char shared_bytes[];
  auto& shared = *reinterpret_cast<SparqShared<T, D, G>*>(shared_bytes);
  const int span = blockIdx.x;
  const int64_t list = blockIdx.y;
  const int sequence = static_cast<int>(list / p.num_kv_heads), kv_head = static_cast<int>(list % p.num_kv_heads);
  const T* q = static_cast<const T*>(p.q) + sequence * p.q_batch + static_cast<int64_t>(kv_head) * G * p.q_head;
  ChooseComponents<T, D, G>(p, q, p.q_head, shared.query, shared.magnitude, shared.component, shared.weight, shared.reduce);

  const int first = span * kSpan;
  float score[G][kTokensPerThread];
#pragma unroll
  for (int g = 0; g < G; ++g) {
#pragma unroll
    for (int i = 0; i < kTokensPerThread; ++i) score[g][i] = 0;
  }
  if (p.kt != nullptr) {
    const T* kt = static_cast<const T*>(p.kt) + sequence * p.kt_batch + kv_head * p.kt_head + first + threadIdx.x * 8;
    // A group of 8 that starts past the end is not read; one that straddles it is (the stride is padded) and masked below.
    const bool live0 = first + static_cast<int>(threadIdx.x) * 8 < p.seq_k;
    const bool live1 = first + kSpan / 2 + static_cast<int>(threadIdx.x) * 8 < p.seq_k;
    constexpr int kAhead = G >= 4 ? 4 : 8;
    for (int j = 0; j < p.rank; j += kAhead) {
      uint4 raw[kAhead][2];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const T* row = kt + shared.component[min(j + a, p.rank - 1)] * p.kt_component;
        raw[a][0] = live0 ? LoadStreaming(row) : make_uint4(0, 0, 0, 0);
        raw[a][1] = live1 ? LoadStreaming(row + kSpan / 2) : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        if (j + a >= p.rank) break;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float key[8];
          Unpack(raw[a][half], key, T());
#pragma unroll
          for (int g = 0; g < G; ++g) {
            const float w = shared.weight[g][j + a];
#pragma unroll
            for (int i = 0; i < 8; ++i) score[g][half * 8 + i] += w * key[i];
          }
        }
      }
    }
  } else {
    // Whole rows: D / 8 lanes hold one row; a thread keeps the scores of the tokens it owns by passing them through shared memory.
    constexpr int kLanes = D / 8, kRowsPerStep = kThreads / kLanes;
    const int group_lane = threadIdx.x % kLanes, row_slot = threadIdx.x / kLanes;
    float w[G][8];
    for (int i = threadIdx.x; i < G * D; i += kThreads) shared.share[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < G * p.rank; i += kThreads) {
      shared.share[(i / p.rank) * D + shared.component[i % p.rank]] = shared.weight[i / p.rank][i % p.rank];
    }
    __syncthreads();
#pragma unroll
    for (int g = 0; g < G; ++g) {
#pragma unroll
      for (int i = 0; i < 8; ++i) w[g][i] = shared.share[g * D + group_lane * 8 + i];
    }
    __syncthreads();
    const T* k = static_cast<const T*>(p.k) + sequence * p.k_batch + kv_head * p.k_head;
    float* staged = shared.share;  // [kThreads][G]: the scores of 256 tokens at a time
#pragma unroll
    for (int i = 0; i < kTokensPerThread; ++i) {
      // Tokens of this round: thread t owns span token (i / 8) * kSpan / 2 + t * 8 + i % 8.
#pragma unroll 4
      for (int t = row_slot; t < kThreads; t += kRowsPerStep) {
        const int token = first + (i / 8) * (kSpan / 2) + t * 8 + i % 8;
        uint4 raw = make_uint4(0, 0, 0, 0);
        if (token < p.seq_k) raw = LoadStreaming(k + token * p.k_row + group_lane * 8);
        float key[8];
        Unpack(raw, key, T());
#pragma unroll
        for (int g = 0; g < G; ++g) {
          float dot = 0;
#pragma unroll
          for (int c = 0; c < 8; ++c) dot += w[g][c] * key[c];
#pragma unroll
          for (int offset = kLanes / 2; offset > 0; offset /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, offset);
          if (group_lane == 0) staged[t * G + g] = dot;
        }
      }
      __syncthreads();
#pragma unroll
      for (int g = 0; g < G; ++g) score[g][i] = staged[threadIdx.x * G + g];
      __syncthreads();
    }
  }

  // Tokens past the end do not exist.
  auto token_of = [&](int i) { return first + (i / 8) * (kSpan / 2) + static_cast<int>(threadIdx.x) * 8 + i % 8; };
#pragma unroll
  for (int i = 0; i < kTokensPerThread; ++i) {
    if (token_of(i) >= p.seq_k) {
#pragma unroll
      for (int g = 0; g < G; ++g) score[g][i] = kNegativeInfinity;
    }
  }

  // Softmax of the estimate. Group 1 ranks by the score itself and normalises when the candidates are merged; a group needs probabilities now.
  float2 whole[G];
#pragma unroll
  for (int g = 0; g < G; ++g) {
    float best = kNegativeInfinity;
#pragma unroll
    for (int i = 0; i < kTokensPerThread; ++i) best = fmaxf(best, score[g][i]);
    best = BlockMax(best, shared.reduce);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kTokensPerThread; ++i) sum += score[g][i] == kNegativeInfinity ? 0.0f : __expf(score[g][i] - best);
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
      float best = kNegativeInfinity, sum = 0;
      for (int other = 0; other < p.num_spans; ++other) best = fmaxf(best, cluster.map_shared_rank(shared.softmax, other)[g].x);
      for (int other = 0; other < p.num_spans; ++other) {
        const float2 theirs = cluster.map_shared_rank(shared.softmax, other)[g];
        if (theirs.x != kNegativeInfinity) sum += theirs.y * __expf(theirs.x - best);
      }
      whole[g] = make_float2(best, sum);
    }
    cluster.sync();  // nobody may leave while its shared memory is being read
#endif
  }

  uint32_t keys[kTokensPerThread];
#pragma unroll
  for (int i = 0; i < kTokensPerThread; ++i) {
    const int token = token_of(i);
    float rank_by;
    if constexpr (G == 1) {
      rank_by = score[0][i];
    } else {
      rank_by = 0;
#pragma unroll
      for (int g = 0; g < G; ++g) {
        score[g][i] = score[g][i] == kNegativeInfinity ? 0.0f : __expf(score[g][i] - whole[g].x) / whole[g].y;
        rank_by += score[g][i];
      }
    }
    keys[i] = token >= p.seq_k ? kNoToken : token >= p.seq_k - p.num_local ? kForced : OrderKey(rank_by);
  }
  int ties;
  const uint32_t threshold = TopKThreshold(keys, p.num_tokens, shared.counters, &ties);
  __syncthreads();

  // Compact in token order: first all threads' first groups of 8, then their second groups; among keys equal to the threshold the earliest count.
  int written = 0, tied = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    int above = 0, equal = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      above += keys[half * 8 + i] > threshold;
      equal += keys[half * 8 + i] == threshold;
    }
    int equal_total, total;
    int equal_before = tied + BlockExclusiveSum(equal, shared.counters, &equal_total);
    int mine = above + max(0, min(equal, ties - equal_before));
    int slot = written + BlockExclusiveSum(mine, shared.counters, &total);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t key = keys[half * 8 + i];
      const bool keep = key > threshold || (key == threshold && equal_before < ties);
      equal_before += key == threshold;
      if (!keep) continue;
      if constexpr (kFused) {
        shared.tokens[slot] = token_of(half * 8 + i);
#pragma unroll
        for (int g = 0; g < G; ++g) {
          shared.share[slot * G + g] = G == 1 ? __expf(score[0][half * 8 + i] - whole[0].x) / whole[0].y : score[g][half * 8 + i];
        }
      } else {
        const int64_t at = (list * p.num_spans + span) * p.num_tokens + slot;
        p.candidate_key[at] = key;
        p.candidate_token[at] = token_of(half * 8 + i);
#pragma unroll
        for (int g = 0; g < G; ++g) p.candidate_score[at * G + g] = score[g][half * 8 + i];
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
    AttendTokens<T, D, G>(p, sequence, kv_head, shared.tokens, shared.share, G, written, shared.query, shared.partial);
  } else if (threadIdx.x == 0) {
    p.candidate_count[list * p.num_spans + span] = written;
    if constexpr (G == 1) p.span_softmax[list * p.num_spans + span] = whole[0];
  }
}

// kPerThread * kThreads >= num_spans * num_tokens candidates.
template <typename T, int D, int G, int kPerThread>
__global__ void __launch_bounds__(kThreads) SparqAttendKernel(const SparqParams p) {
  extern __shared__ char shared_bytes[];
  auto& shared = *reinterpret_cast<SparqShared<T, D, G>*>(shared_bytes);
  const int64_t list = blockIdx.x;
  const int sequence = static_cast<int>(list / p.num_kv_heads), kv_head = static_cast<int>(list % p.num_kv_heads);
  const T* q = static_cast<const T*>(p.q) + sequence * p.q_batch + static_cast<int64_t>(kv_head) * G * p.q_head;
  for (int i = threadIdx.x; i < G * D; i += kThreads) shared.query[i / D][i % D] = ToFloat(q[(i / D) * p.q_head + i % D]);

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
  const uint32_t threshold = TopKThreshold(keys, p.num_tokens, shared.counters, &ties);
  __syncthreads();
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
  AttendTokens<T, D, G>(p, sequence, kv_head, shared.tokens, shared.share, G, kept, shared.query, shared.partial);
}

}  // namespace headscope::kernels::decode
