#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "select/pooled_blocks.h"

namespace headscope::kernels::selection {
namespace {

constexpr int kPoolThreads = 256;
constexpr int kPickThreads = 512;
constexpr int kPickWarps = kPickThreads / 32;
constexpr int kBins = 256;
constexpr unsigned kFullWarp = 0xffffffffu;

__device__ inline void AddEight(const uint4& raw, bool is_bf16, float (&sums)[8]) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = is_bf16 ? float2{__uint_as_float(words[i] << 16), __uint_as_float(words[i] & 0xffff0000u)}
                                : __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
    sums[2 * i] += pair.x;
    sums[2 * i + 1] += pair.y;
  }
}

// A thread block per block of 64 rows, those of Q first. A ragged last block is the mean of its valid rows.
__global__ void __launch_bounds__(kPoolThreads) PoolKernel(const PooledBlocksParams p) {
  __shared__ float partials[kPoolThreads * 8];
  const int64_t num_q_blocks = int64_t{p.batch} * p.num_qo_heads * p.num_query_blocks;
  const bool is_query = blockIdx.x < num_q_blocks;
  const int64_t at = is_query ? blockIdx.x : blockIdx.x - num_q_blocks;
  const int32_t blocks_per_head = is_query ? p.num_query_blocks : p.num_key_blocks;
  const int32_t heads = is_query ? p.num_qo_heads : p.num_kv_heads;
  const int64_t list = at / blocks_per_head;
  const auto block = static_cast<int32_t>(at % blocks_per_head);
  const StridedTensor<const void>& tensor = is_query ? p.q : p.k;
  const int32_t num_rows = min(kPoolRows, (is_query ? p.seq_q : p.num_visible_keys) - block * kPoolRows);

  // Neighbouring threads take neighbouring 16 bytes of a row; a thread takes every stride-th row.
  const int pieces = p.head_dim / 8;
  const int stride = kPoolThreads / pieces;
  const int piece = static_cast<int>(threadIdx.x) % pieces;
  const int first_row = static_cast<int>(threadIdx.x) / pieces;
  float sums[8] = {};
  if (first_row < stride) {
    const auto* const from = static_cast<const uint16_t*>(tensor.data) + list / heads * tensor.batch_stride +
                             list % heads * tensor.head_stride + int64_t{block} * kPoolRows * tensor.row_stride +
                             piece * 8;
    for (int row = first_row; row < num_rows; row += stride) {
      AddEight(*reinterpret_cast<const uint4*>(from + row * tensor.row_stride), p.is_bf16, sums);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) partials[first_row * p.head_dim + piece * 8 + i] = sums[i];
  }
  __syncthreads();
  const int component = static_cast<int>(threadIdx.x);
  if (component >= p.head_dim) return;
  float sum = 0;
  for (int row = 0; row < stride; ++row) sum += partials[row * p.head_dim + component];
  const float mean = sum / static_cast<float>(num_rows);
  if (is_query) {
    p.pooled_q[at * p.head_dim + component] = mean;
  } else {
    p.pooled_k[(list * p.head_dim + component) * p.key_pitch + block] = mean;
  }
}

// Larger is better; -0 and +0 are equal scores; NaN is worse than anything.
__device__ inline uint32_t RankKey(float score) {
  const uint32_t bits = __float_as_uint(score + 0.0f);
  return isnan(score) ? 0u : (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// What is kept: every key above this one and the first `quota` equal to it.
struct Threshold {
  uint32_t key;
  int32_t quota;
};

// The wanted-th largest of keys[0 .. num_keys), 1 <= wanted <= num_keys. One warp; `bins` is its own.
__device__ Threshold FindThreshold(const uint32_t* keys, int32_t num_keys, int32_t wanted, int32_t* bins) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t threshold = 0;
#pragma unroll 1
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int bin = lane; bin < kBins; bin += 32) bins[bin] = 0;
    __syncwarp();
#pragma unroll 4
    for (int32_t i = lane; i < num_keys; i += 32) {
      const uint32_t key = keys[i];
      // Shifted by 31 at most and once more, since a shift by 32 is not defined.
      if (((key ^ threshold) >> (shift + 7)) >> 1 == 0) atomicAdd(&bins[key >> shift & 255], 1);
    }
    __syncwarp();
    // Lane l holds the l-th highest eight bins; sums run from the highest down.
    int32_t own = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) own += bins[255 - 8 * lane - i];
    int32_t sum = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int32_t before = __shfl_up_sync(kFullWarp, sum, offset);
      if (lane >= offset) sum += before;
    }
    const int owner = __ffs(static_cast<int>(__ballot_sync(kFullWarp, sum >= wanted))) - 1;
    int32_t above = __shfl_sync(kFullWarp, sum - own, owner);
    int digit = 255 - 8 * owner;
    while (above + bins[digit] < wanted) above += bins[digit--];
    threshold |= static_cast<uint32_t>(digit) << shift;
    wanted -= above;
    __syncwarp();
  }
  return {threshold, wanted};
}

constexpr int kAhead = 8;  // divides every head_dim

__device__ inline void LoadComponents(const float* from, int64_t pitch, float (&to)[kAhead]) {
#pragma unroll
  for (int i = 0; i < kAhead; ++i) to[i] = from[i * pitch];
}

// A thread block per kQueries query blocks of one head.
template <int kQueries>
__global__ void __launch_bounds__(kPickThreads) PickBlocksKernel(const PooledBlocksParams p) {
  extern __shared__ uint32_t shared[];
  uint32_t* const keys = shared;                                                   // [kQueries, key_pitch]
  auto* const queries = reinterpret_cast<float*>(keys + kQueries * p.key_pitch);   // [head_dim, kQueries]
  auto* const bins = reinterpret_cast<int32_t*>(queries + kQueries * p.head_dim);  // [kQueries, kBins]
  const int32_t parts = (p.num_query_blocks + kQueries - 1) / kQueries;
  const int64_t list = blockIdx.x / parts;
  // The longest first: they take the longest.
  const int32_t first_block = (parts - 1 - static_cast<int32_t>(blockIdx.x % parts)) * kQueries;
  const int32_t num_queries = min(kQueries, p.num_query_blocks - first_block);
  const int32_t group_size = p.num_qo_heads / p.num_kv_heads;
  const int64_t kv_list = list / p.num_qo_heads * p.num_kv_heads + list % p.num_qo_heads / group_size;
  auto num_causal = [&](int32_t query_block) {
    return (p.first_position + min((query_block + 1) * kPoolRows, p.seq_q) - 1) / kPoolRows + 1;
  };

  const float* const pooled_q = p.pooled_q + (list * p.num_query_blocks + first_block) * p.head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * p.head_dim; i += kPickThreads) {
    const int query = i / p.head_dim;
    queries[i % p.head_dim * kQueries + query] = query < num_queries ? pooled_q[i] : 0.0f;
  }
  __syncthreads();
  const float* const pooled_k = p.pooled_k + kv_list * p.head_dim * p.key_pitch;
  const int32_t num_keys = num_causal(first_block + num_queries - 1);
  for (int32_t key = static_cast<int32_t>(threadIdx.x); key < num_keys; key += kPickThreads) {
    // Components of the key block come eight at a time, the next eight while these are used.
    const float* const column = pooled_k + key;
    float scores[kQueries] = {};
    float next[kAhead];
    LoadComponents(column, p.key_pitch, next);
    for (int first = 0; first < p.head_dim; first += kAhead) {
      float k[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) k[i] = next[i];
      if (first + kAhead < p.head_dim)
        LoadComponents(column + int64_t{first + kAhead} * p.key_pitch, p.key_pitch, next);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int query = 0; query < kQueries; query += 4) {
          const float4 q = *reinterpret_cast<const float4*>(&queries[(first + i) * kQueries + query]);
          scores[query] = fmaf(q.x, k[i], scores[query]);
          scores[query + 1] = fmaf(q.y, k[i], scores[query + 1]);
          scores[query + 2] = fmaf(q.z, k[i], scores[query + 2]);
          scores[query + 3] = fmaf(q.w, k[i], scores[query + 3]);
        }
      }
    }
#pragma unroll
    for (int query = 0; query < kQueries; ++query) keys[query * p.key_pitch + key] = RankKey(scores[query]);
  }
  __syncthreads();

  const int query = static_cast<int>(threadIdx.x) / 32;
  if (query >= num_queries) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t* const row = keys + query * p.key_pitch;
  const int32_t query_block = first_block + query;
  const int32_t visible = num_causal(query_block);
  Threshold threshold{0, visible};  // all: no key is below 0, and there are not more ties than keys
  if (p.num_kept < visible) threshold = FindThreshold(row, visible, p.num_kept, bins + query * kBins);
  auto* const halves = reinterpret_cast<uint32_t*>(p.bitmaps + (list * p.num_query_blocks + query_block) * p.words);
  int32_t ties_before = 0;
  for (int32_t first = 0; first < p.words * 64; first += 32) {
    const int32_t at = first + lane;
    const bool inside = at < visible;
    const uint32_t key = inside ? row[at] : 0u;
    const uint32_t ties = __ballot_sync(kFullWarp, inside && key == threshold.key);
    const int32_t rank = ties_before + __popc(ties & ((1u << lane) - 1));
    const bool kept = inside && (key > threshold.key || (key == threshold.key && rank < threshold.quota));
    const uint32_t word = __ballot_sync(kFullWarp, kept);
    if (lane == 0) halves[first / 32] = word;
    ties_before += __popc(ties);
  }
}

size_t SharedBytes(int32_t queries, int32_t head_dim, int32_t key_pitch) {
  return sizeof(float) * static_cast<size_t>(queries) * static_cast<size_t>(key_pitch + head_dim + kBins);
}

template <int kQueries>
cudaError_t LaunchPick(const PooledBlocksParams& p, cudaStream_t stream) {
  static_assert(kQueries <= kPickWarps);
  const size_t shared_bytes = SharedBytes(kQueries, p.head_dim, p.key_pitch);
  const cudaError_t error = cudaFuncSetAttribute(
      PickBlocksKernel<kQueries>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (error != cudaSuccess) return error;
  const int64_t parts = (p.num_query_blocks + kQueries - 1) / kQueries;
  const auto grid = static_cast<unsigned>(int64_t{p.batch} * p.num_qo_heads * parts);
  PickBlocksKernel<kQueries><<<grid, kPickThreads, shared_bytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

int32_t QueryBlocksPerThreadBlock(const PooledBlocksParams& params, size_t shared_bytes) {
  if (SharedBytes(16, params.head_dim, params.key_pitch) <= shared_bytes) return 16;
  return SharedBytes(4, params.head_dim, params.key_pitch) <= shared_bytes ? 4 : 0;
}

int32_t MostKeyBlocks(int32_t head_dim, size_t shared_bytes) {
  return (static_cast<int32_t>(shared_bytes / (4 * sizeof(float))) - head_dim - kBins) / 32 * 32;
}

cudaError_t LaunchPooledBlocks(const PooledBlocksParams& params, int32_t query_blocks_per_thread_block,
                               cudaStream_t stream) {
  const int64_t num_blocks = int64_t{params.batch} * (int64_t{params.num_qo_heads} * params.num_query_blocks +
                                                      int64_t{params.num_kv_heads} * params.num_key_blocks);
  PoolKernel<<<static_cast<unsigned>(num_blocks), kPoolThreads, 0, stream>>>(params);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  return query_blocks_per_thread_block == 16 ? LaunchPick<16>(params, stream) : LaunchPick<4>(params, stream);
}

}  // namespace headscope::kernels::selection
