// The scores of pooled blocks and the best of them.
//
// Products are exact to fp32's rounding on tensor cores that take tf32: an operand is the sum of two numbers of 11
// bits, high and low, and high * high + high * low + low * high leaves out less than 2^-20 of each product.
#include <cuda_runtime.h>

#include "select/pooled_blocks.h"

namespace headscope::kernels::selection {
namespace {

constexpr int kPickThreads = 512;
constexpr int kPickWarps = kPickThreads / 32;
constexpr int kMostQueries = 16;           // rows of one product
constexpr int kKeyGroups = 4;              // groups of 8 keys that a warp scores at once
constexpr int kWarpKeys = 8 * kKeyGroups;  // keys of a warp's turn
constexpr int kTurnKeys = kWarpKeys * kPickWarps;
constexpr int kStepComponents = 16;  // of a step of the product: 16 bytes per lane
constexpr int kPitchPad = 8;         // eight rows' stores of neighbouring scores meet all 32 banks
constexpr unsigned kFullWarp = 0xffffffffu;

// Rows [scores] in shared memory are this long.
__host__ __device__ constexpr int32_t ScorePitch(int32_t num_key_blocks) {
  return (num_key_blocks + kWarpKeys - 1) / kWarpKeys * kWarpKeys + kPitchPad;
}

struct Terms {
  uint32_t high[4];
  uint32_t low[4];
};

// The low 13 bits of a tf32 number are zero. A term of NaN is NaN; an infinity's low term is NaN.
__device__ __forceinline__ Terms Split(const float4& value) {
  constexpr uint32_t kTf32Bits = 0xffffe000u;
  const float numbers[4] = {value.x, value.y, value.z, value.w};
  Terms terms;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    terms.high[i] = __float_as_uint(numbers[i]) & kTf32Bits;
    terms.low[i] = __float_as_uint(numbers[i] - __uint_as_float(terms.high[i])) & kTf32Bits;
  }
  return terms;
}

// c += a * b over 8 components: 16 query blocks by 8 key blocks.
__device__ __forceinline__ void Multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                         uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The query blocks' operands as the products read them: per step and lane the high terms of query block lane / 4, those
// of query block lane / 4 + 8, and the low terms of both; components 4 (lane % 4) to + 3 of the step. Which component
// a product takes for which of its places is free as long as both operands agree.
__device__ void LoadQueries(const float* pooled_q, int num_queries, int head_dim, uint4* operands) {
  const int num_pieces = head_dim / kStepComponents * 2 * 32;
  for (int i = static_cast<int>(threadIdx.x); i < num_pieces; i += kPickThreads) {
    const int lane = i % 32;
    const int row_half = i / 32 % 2;
    const int step = i / 64;
    const int query = lane / 4 + 8 * row_half;
    float4 value = {};
    if (query < num_queries) {
      value = *reinterpret_cast<const float4*>(pooled_q + query * head_dim + step * kStepComponents + lane % 4 * 4);
    }
    const Terms terms = Split(value);
    uint4* const to = operands + step * 4 * 32 + lane;
    to[row_half * 32] = {terms.high[0], terms.high[1], terms.high[2], terms.high[3]};
    to[(2 + row_half) * 32] = {terms.low[0], terms.low[1], terms.low[2], terms.low[3]};
  }
}

// Scores of the first num_rows query blocks with key blocks [0, num_keys), into scores[query * pitch + key].
__device__ void ScoreKeys(const float* pooled_k, const uint4* operands, int32_t num_keys, int head_dim, int num_rows,
                          int32_t pitch, float* scores) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int num_steps = head_dim / kStepComponents;
  // Behind the last key its row is read again: nobody looks at those scores.
  auto load = [&](int32_t first, int step, float4(&to)[kKeyGroups]) {
#pragma unroll
    for (int group = 0; group < kKeyGroups; ++group) {
      const int32_t key = min(first + 8 * group + lane / 4, num_keys - 1);
      to[group] = __ldg(
          reinterpret_cast<const float4*>(pooled_k + int64_t{key} * head_dim + step * kStepComponents + lane % 4 * 4));
    }
  };
  int32_t first = warp * kWarpKeys;
  if (first >= num_keys) return;
  float4 next[kKeyGroups];
  load(first, 0, next);
  for (; first < num_keys; first += kTurnKeys) {
    float c[kKeyGroups][4] = {};
#pragma unroll 1
    for (int step = 0; step < num_steps; ++step) {
      float4 keys[kKeyGroups];
#pragma unroll
      for (int group = 0; group < kKeyGroups; ++group) keys[group] = next[group];
      const bool ends = step + 1 == num_steps;
      load(ends ? first + kTurnKeys : first, ends ? 0 : step + 1, next);
      const uint4* const from = operands + step * 4 * 32 + lane;
      const uint4 high = from[0];
      const uint4 high8 = from[32];
      const uint4 low = from[64];
      const uint4 low8 = from[96];
#pragma unroll
      for (int group = 0; group < kKeyGroups; ++group) {
        const Terms k = Split(keys[group]);
        Multiply(c[group], low.x, low8.x, low.y, low8.y, k.high[0], k.high[1]);
        Multiply(c[group], low.z, low8.z, low.w, low8.w, k.high[2], k.high[3]);
        Multiply(c[group], high.x, high8.x, high.y, high8.y, k.low[0], k.low[1]);
        Multiply(c[group], high.z, high8.z, high.w, high8.w, k.low[2], k.low[3]);
        Multiply(c[group], high.x, high8.x, high.y, high8.y, k.high[0], k.high[1]);
        Multiply(c[group], high.z, high8.z, high.w, high8.w, k.high[2], k.high[3]);
      }
    }
    auto ordered = [](float score) { return isfinite(score) ? score : -__int_as_float(0x7f800000); };
#pragma unroll
    for (int group = 0; group < kKeyGroups; ++group) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int query = lane / 4 + 8 * half;
        if (query >= num_rows) continue;
        *reinterpret_cast<float2*>(scores + query * pitch + first + 8 * group + lane % 4 * 2) = {
            ordered(c[group][2 * half]), ordered(c[group][2 * half + 1])};
      }
    }
  }
}

// What is kept: every score above `bound`, and the first `quota` of those equal to it.
struct Cut {
  float bound;
  int32_t quota;
};
constexpr int32_t kAll = 0x7fffffff;

// The cut that keeps the best `wanted` of scores[0 .. count), found by halving the interval of values that it can lie
// in. 1 <= wanted <= count; all lanes call it.
__device__ Cut FindCut(const float* scores, int32_t count, int32_t wanted) {
  constexpr float kInfinity = __builtin_huge_valf();
  if (wanted == count) return {-kInfinity, kAll};
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float low = kInfinity;
  float high = -kInfinity;
  int32_t finite = 0;
  for (int32_t i = lane; i < count; i += 32) {
    const float score = scores[i];
    if (score == -kInfinity) continue;
    low = fminf(low, score);
    high = fmaxf(high, score);
    ++finite;
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    low = fminf(low, __shfl_xor_sync(kFullWarp, low, offset));
    high = fmaxf(high, __shfl_xor_sync(kFullWarp, high, offset));
  }
  finite = __reduce_add_sync(kFullWarp, finite);
  if (finite < wanted) return {-kInfinity, wanted - finite};

  auto count_from = [&](float bound) {
    int32_t reached = 0;
#pragma unroll 8
    for (int32_t i = lane; i < count; i += 32) reached += scores[i] >= bound ? 1 : 0;
    return __reduce_add_sync(kFullWarp, reached);
  };
  int32_t above = count_from(high);  // scores from `high` on: fewer than wanted
  if (above >= wanted) return {high, wanted};
  int32_t reached = finite;  // scores from `low` on: wanted or more
  while (reached > wanted) {
    const float middle = 0.5f * low + 0.5f * high;
    if (middle <= low || middle >= high) return {low, wanted - above};  // neighbours: what is below `high` is `low`
    const int32_t from_middle = count_from(middle);
    if (from_middle >= wanted) {
      low = middle;
      reached = from_middle;
    } else {
      high = middle;
      above = from_middle;
    }
  }
  return {low, kAll};
}

// 32 words of 32 bits at a time, one per lane.
__device__ void WriteBitmap(const float* scores, int32_t count, const Cut& cut, int32_t num_halves, uint32_t* halves) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int32_t ties_before = 0;
  for (int32_t first = 0; first < num_halves; first += 32) {
    uint32_t own = 0;
    for (int i = 0; i < 32 && (first + i) * 32 < count; ++i) {
      const int32_t at = (first + i) * 32 + lane;
      const float score = at < count ? scores[at] : __int_as_float(0x7fffffff);  // NaN is neither above nor equal
      const uint32_t ties = __ballot_sync(kFullWarp, score == cut.bound);
      const int32_t rank = ties_before + __popc(ties & ((1u << lane) - 1));
      const uint32_t word = __ballot_sync(kFullWarp, score > cut.bound || (score == cut.bound && rank < cut.quota));
      ties_before += __popc(ties);
      if (lane == i) own = word;
    }
    if (first + lane < num_halves) halves[first + lane] = own;
  }
}

// A thread block per num_rows query blocks of one head.
__global__ void __launch_bounds__(kPickThreads, 1) PickBlocksKernel(const PooledBlocksParams p, const int num_rows) {
  extern __shared__ __align__(16) char shared[];
  auto* const operands = reinterpret_cast<uint4*>(shared);
  auto* const scores = reinterpret_cast<float*>(operands + p.head_dim / kStepComponents * 4 * 32);
  const int32_t pitch = ScorePitch(p.num_key_blocks);
  const auto parts = static_cast<uint32_t>((p.num_query_blocks + num_rows - 1) / num_rows);
  const uint32_t list = blockIdx.x / parts;
  // The longest first: they take the longest.
  const int32_t first_block = static_cast<int32_t>(parts - 1 - blockIdx.x % parts) * num_rows;
  const int num_queries = min(num_rows, p.num_query_blocks - first_block);
  const auto num_qo_heads = static_cast<uint32_t>(p.num_qo_heads);
  const auto num_kv_heads = static_cast<uint32_t>(p.num_kv_heads);
  const uint32_t kv_list = list / num_qo_heads * num_kv_heads + list % num_qo_heads / (num_qo_heads / num_kv_heads);
  auto num_causal = [&](int32_t query_block) {
    return (p.first_position + min((query_block + 1) * kPoolRows, p.seq_q) - 1) / kPoolRows + 1;
  };

  const int64_t query_row = int64_t{list} * p.num_query_blocks + first_block;
  LoadQueries(p.pooled_q + query_row * p.head_dim, num_queries, p.head_dim, operands);
  __syncthreads();
  ScoreKeys(p.pooled_k + int64_t{kv_list} * p.num_key_blocks * p.head_dim, operands,
            num_causal(first_block + num_queries - 1), p.head_dim, num_rows, pitch, scores);
  __syncthreads();
  const int query = static_cast<int>(threadIdx.x) / 32;
  if (query >= num_queries) return;
  const float* const row = scores + query * pitch;
  const int32_t visible = num_causal(first_block + query);
  const Cut cut = FindCut(row, visible, min(p.num_kept, visible));
  WriteBitmap(row, visible, cut, 2 * p.words, reinterpret_cast<uint32_t*>(p.bitmaps + (query_row + query) * p.words));
}

size_t OperandBytes(int32_t head_dim) {
  return static_cast<size_t>(head_dim / kStepComponents) * 4 * 32 * sizeof(uint4);
}

size_t SharedBytes(int32_t queries, int32_t head_dim, int32_t num_key_blocks) {
  return OperandBytes(head_dim) +
         sizeof(float) * static_cast<size_t>(queries) * static_cast<size_t>(ScorePitch(num_key_blocks));
}

constexpr int32_t kFewestQueries = 4;

}  // namespace

int32_t QueryBlocksPerThreadBlock(const PooledBlocksParams& params, size_t shared_bytes) {
  for (const int32_t queries : {int32_t{kMostQueries}, kFewestQueries}) {
    if (SharedBytes(queries, params.head_dim, params.num_key_blocks) <= shared_bytes) return queries;
  }
  return 0;
}

int32_t MostKeyBlocks(int32_t head_dim, size_t shared_bytes) {
  const size_t row = (shared_bytes - OperandBytes(head_dim)) / (kFewestQueries * sizeof(float));
  return (static_cast<int32_t>(row) - kPitchPad) / kWarpKeys * kWarpKeys;
}

cudaError_t LaunchPickBlocks(const PooledBlocksParams& params, int32_t query_blocks_per_thread_block,
                             cudaStream_t stream) {
  const size_t shared_bytes = SharedBytes(query_blocks_per_thread_block, params.head_dim, params.num_key_blocks);
  const cudaError_t error = cudaFuncSetAttribute(PickBlocksKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 static_cast<int>(shared_bytes));
  if (error != cudaSuccess) return error;
  const int64_t parts = (params.num_query_blocks + query_blocks_per_thread_block - 1) / query_blocks_per_thread_block;
  const auto grid = static_cast<unsigned>(int64_t{params.batch} * params.num_qo_heads * parts);
  PickBlocksKernel<<<grid, kPickThreads, shared_bytes, stream>>>(params, query_blocks_per_thread_block);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::selection
