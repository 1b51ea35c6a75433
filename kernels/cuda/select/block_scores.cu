// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "dependent_launch.cuh"
#include "fast_math.cuh"
#include "select/block_scores.h"
#include "select/pool_block.cuh"

namespace headscope::kernels::selection {
namespace {

constexpr unsigned kFullWarp = 0xffffffffu;

// A block of rows of Q or of K: those of K come first.
struct RowsOfBlock {
  const uint16_t* rows;
  int64_t row_stride;
  int32_t num_rows;
  bool is_key;
  int64_t list;
  int64_t place;  // of the block among those of its tensor

  __device__ RowsOfBlock(const BlockScoresParams& p, int64_t number) {
    const int64_t num_keys = p.NumKvLists() * p.NumKeyBlocks();
    is_key = number < num_keys;
    place = is_key ? number : number - num_keys;
    const int32_t blocks = is_key ? p.NumKeyBlocks() : p.NumQueryBlocks();
    const int32_t size = is_key ? p.key_block : p.query_block;
    const int32_t heads = is_key ? p.num_kv_heads : p.num_qo_heads;
    const StridedTensor<const void>& tensor = is_key ? p.k : p.q;
    list = place / blocks;
    const int32_t first_row = static_cast<int32_t>(place % blocks) * size;
    num_rows = min(size, (is_key ? p.num_visible_keys : p.seq_q) - first_row);
    row_stride = tensor.row_stride;
    rows = static_cast<const uint16_t*>(tensor.data) + list / heads * tensor.batch_stride +
           list % heads * tensor.head_stride + first_row * row_stride;
  }
};

constexpr int kMeanThreads = 256;

// A warp per block, of blocks from `begin` to `end`. Neighbouring lanes take neighbouring 16 bytes of a row, and as
// many rows as that leaves lanes for go at once.
__global__ void __launch_bounds__(kMeanThreads)
    BlockMeansKernel(const BlockScoresParams p, int64_t begin, int64_t end) {
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int64_t number =
      begin + (static_cast<int64_t>(blockIdx.x) * kMeanThreads + static_cast<int64_t>(threadIdx.x)) / 32;
  if (number >= end) return;
  const RowsOfBlock block(p, number);
  if (!block.is_key && p.wanted != nullptr && p.wanted[block.list] == 0) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pieces = p.head_dim / 8;
  const int rows_at_once = 32 / pieces;
  const int lane_row = lane / pieces;
  float sums[8] = {};
  for (int first = 0; first < block.num_rows; first += kPoolRows) {
    const uint16_t* const from = block.rows + first * block.row_stride + lane % pieces * 8;
    // A head_dim of 96 leaves 8 lanes over.
    const int num_rows = lane_row < rows_at_once ? min(kPoolRows, block.num_rows - first) : 0;
    if (p.is_bf16) {
      AddRows<true>(from, block.row_stride, lane_row, rows_at_once, num_rows, sums);
    } else {
      AddRows<false>(from, block.row_stride, lane_row, rows_at_once, num_rows, sums);
    }
  }
  float totals[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) totals[i] = sums[i];
  for (int row = 1; row < rows_at_once; ++row) {
#pragma unroll
    for (int i = 0; i < 8; ++i) totals[i] += __shfl_down_sync(kFullWarp, sums[i], static_cast<unsigned>(row * pieces));
  }
  if (lane >= pieces) return;
  float* const to = (block.is_key ? p.k_means : p.q_means) + block.place * p.head_dim + lane * 8;
  const auto count = static_cast<float>(block.num_rows);
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    *reinterpret_cast<float4*>(to + i) = {totals[i] / count, totals[i + 1] / count, totals[i + 2] / count,
                                          totals[i + 3] / count};
  }
}

constexpr int kMeanKeyParts = 8;
constexpr int kMeanKeyColumns = 32;

// A thread block for 32 components of a KV head's mean key.
__global__ void __launch_bounds__(kMeanKeyParts* kMeanKeyColumns) MeanKeyKernel(const BlockScoresParams p) {
  __shared__ float parts[kMeanKeyParts][kMeanKeyColumns];
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int column = static_cast<int>(threadIdx.x) % kMeanKeyColumns;
  const int part = static_cast<int>(threadIdx.x) / kMeanKeyColumns;
  const int slices = p.head_dim / kMeanKeyColumns;
  const int64_t list = blockIdx.x / static_cast<unsigned>(slices);
  const int component = static_cast<int>(blockIdx.x % static_cast<unsigned>(slices)) * kMeanKeyColumns + column;
  float* const to = p.mean_keys + list * p.head_dim + component;
  if (!p.centre) {
    if (part == 0) *to = 0;
    return;
  }
  const int32_t blocks = p.NumKeyBlocks();
  const float* const means = p.k_means + list * blocks * p.head_dim + component;
  float sum = 0;
#pragma unroll 8
  for (int32_t block = part; block < blocks; block += kMeanKeyParts) {
    const auto rows = static_cast<float>(min(p.key_block, p.num_visible_keys - block * p.key_block));
    sum = fmaf(means[int64_t{block} * p.head_dim], rows, sum);
  }
  parts[part][column] = sum;
  __syncthreads();
  if (part > 0) return;
#pragma unroll
  for (int other = 1; other < kMeanKeyParts; ++other) sum += parts[other][column];
  *to = sum / static_cast<float>(p.num_visible_keys);
}

__device__ __forceinline__ float WarpSum(float sum) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
  return sum;
}

// A warp per block, row by row: lane l has components l, l + 32 and so on.
__global__ void __launch_bounds__(kMeanThreads) LikenessKernel(const BlockScoresParams p) {
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int64_t number = (static_cast<int64_t>(blockIdx.x) * kMeanThreads + static_cast<int64_t>(threadIdx.x)) / 32;
  if (number >= p.NumBlocks()) return;
  const RowsOfBlock block(p, number);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int kMostParts = 256 / 32;
  float mean_key[kMostParts] = {};
  if (block.is_key) {
#pragma unroll
    for (int i = 0; i < kMostParts; ++i) {
      if (32 * i < p.head_dim) mean_key[i] = p.mean_keys[block.list * p.head_dim + 32 * i + lane];
    }
  }
  float sums[kMostParts] = {};
  float largest = 0;
  for (int row = 0; row < block.num_rows; ++row) {
    const uint16_t* const from = block.rows + row * block.row_stride + lane;
    float values[kMostParts] = {};
    float square = 0;
#pragma unroll
    for (int i = 0; i < kMostParts; ++i) {
      if (32 * i >= p.head_dim) break;
      const uint16_t raw = from[32 * i];
      const float value =
          p.is_bf16 ? __uint_as_float(static_cast<uint32_t>(raw) << 16) : __half2float(__ushort_as_half(raw));
      values[i] = value - mean_key[i];
      square = fmaf(values[i], values[i], square);
    }
    square = WarpSum(square);
    largest = fmaxf(largest, square);
    const float factor = p.by_largest ? 1.0f : square > 0 ? 1.0f / sqrtf(square) : 0.0f;
#pragma unroll
    for (int i = 0; i < kMostParts; ++i) sums[i] = fmaf(values[i], factor, sums[i]);
  }
  // The mean of all products of two rows is the squared norm of the mean row.
  float square = 0;
#pragma unroll
  for (int i = 0; i < kMostParts; ++i) square = fmaf(sums[i], sums[i], square);
  square = WarpSum(square) / (static_cast<float>(block.num_rows) * static_cast<float>(block.num_rows));
  const float divisor = p.by_largest ? largest : 1.0f;
  const bool alike = divisor > 0 ? static_cast<double>(square / divisor) > p.theta : true;  // zeros are alike
  if (lane == 0) (block.is_key ? p.k_alike : p.q_alike)[block.place] = alike ? 1 : 0;
}

constexpr int kScoreThreads = 64;  // 8 x 8 scores each
constexpr int kScoreTile = 64;
constexpr int kScoreDepth = 16;  // components at a time
constexpr int kScorePitch = kScoreTile + 4;

// 64 query blocks by 64 key blocks.
__global__ void __launch_bounds__(kScoreThreads) BlockScoresKernel(const BlockScoresParams p) {
  __shared__ __align__(16) float queries[kScoreDepth][kScorePitch];
  __shared__ __align__(16) float keys[kScoreDepth][kScorePitch];
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int32_t num_queries = p.NumQueryBlocks();
  const int32_t num_keys = p.NumKeyBlocks();
  const auto key_tiles = static_cast<unsigned>((num_keys + kScoreTile - 1) / kScoreTile);
  const auto query_tiles = static_cast<unsigned>((num_queries + kScoreTile - 1) / kScoreTile);
  const int32_t first_key = static_cast<int32_t>(blockIdx.x % key_tiles) * kScoreTile;
  const int32_t first_query = static_cast<int32_t>(blockIdx.x / key_tiles % query_tiles) * kScoreTile;
  const int64_t list = blockIdx.x / key_tiles / query_tiles;
  if (p.wanted != nullptr && p.wanted[list] == 0) return;
  const int32_t last_row = min(min(first_query + kScoreTile, num_queries) * p.query_block, p.seq_q) - 1;
  if (int64_t{first_key} * p.key_block > int64_t{p.first_position} + last_row) return;
  const int64_t kv_list =
      list / p.num_qo_heads * p.num_kv_heads + list % p.num_qo_heads / (p.num_qo_heads / p.num_kv_heads);
  const float* const q_means = p.q_means + list * num_queries * p.head_dim;
  const float* const k_means = p.k_means + kv_list * num_keys * p.head_dim;
  const float* const mean_key = p.mean_keys + kv_list * p.head_dim;

  const int thread = static_cast<int>(threadIdx.x);
  const int query = thread / 8 * 4;  // the thread's: query to query + 3, and 32 behind them
  const int key = thread % 8 * 4;
  float sums[8][8] = {};
  for (int depth = 0; depth < p.head_dim; depth += kScoreDepth) {
    __syncthreads();
    // Four components of a row at a time; rows that are not there are the last.
#pragma unroll
    for (int i = 0; i < kScoreTile * kScoreDepth / 4 / kScoreThreads; ++i) {
      const int at = i * kScoreThreads + thread;
      const int row = at / (kScoreDepth / 4);
      const int component = at % (kScoreDepth / 4) * 4;
      const auto load = [&](const float* means, int32_t place) {
        return *reinterpret_cast<const float4*>(means + int64_t{place} * p.head_dim + depth + component);
      };
      const float4 q = load(q_means, min(first_query + row, num_queries - 1));
      const float4 k = load(k_means, min(first_key + row, num_keys - 1));
      const float4 off = *reinterpret_cast<const float4*>(mean_key + depth + component);
      queries[component][row] = q.x;
      queries[component + 1][row] = q.y;
      queries[component + 2][row] = q.z;
      queries[component + 3][row] = q.w;
      keys[component][row] = k.x - off.x;
      keys[component + 1][row] = k.y - off.y;
      keys[component + 2][row] = k.z - off.z;
      keys[component + 3][row] = k.w - off.w;
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kScoreDepth; ++d) {
      float a[8];
      float b[8];
      *reinterpret_cast<float4*>(a) = *reinterpret_cast<const float4*>(&queries[d][query]);
      *reinterpret_cast<float4*>(a + 4) = *reinterpret_cast<const float4*>(&queries[d][query + 32]);
      *reinterpret_cast<float4*>(b) = *reinterpret_cast<const float4*>(&keys[d][key]);
      *reinterpret_cast<float4*>(b + 4) = *reinterpret_cast<const float4*>(&keys[d][key + 32]);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] = fmaf(a[i], b[j], sums[i][j]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int32_t row = first_query + query + i % 4 + i / 4 * 32;
    if (row >= num_queries) break;
    float* const to = p.scores + (list * num_queries + row) * num_keys;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int32_t column = first_key + key + j % 4 + j / 4 * 32;
      const float score = sums[i][j] * p.score_scale;
      if (column < num_keys) to[column] = p.cap > 0 ? p.cap * cuda::Tanh(score) : score;
    }
  }
}

unsigned WarpGrid(int64_t blocks) {
  return static_cast<unsigned>((blocks * 32 + kMeanThreads - 1) / kMeanThreads);
}

// Of the first `count` blocks, in front of a chain.
cudaError_t LaunchMeans(const BlockScoresParams& params, int64_t count, cudaStream_t stream) {
  BlockMeansKernel<<<WarpGrid(count), kMeanThreads, 0, stream>>>(params, 0, count);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  const auto grid = static_cast<unsigned>(params.NumKvLists() * (params.head_dim / kMeanKeyColumns));
  return cuda::LaunchDependent(MeanKeyKernel, grid, kMeanKeyParts * kMeanKeyColumns, 0, stream, params);
}

cudaError_t LaunchScores(const BlockScoresParams& params, cudaStream_t stream) {
  return cuda::LaunchDependent(BlockScoresKernel, static_cast<unsigned>(params.NumScoreTiles()), kScoreThreads, 0,
                               stream, params);
}

}  // namespace

cudaError_t LaunchBlockScores(const BlockScoresParams& params, cudaStream_t stream) {
  cudaError_t error = LaunchMeans(params, params.NumBlocks(), stream);
  if (error == cudaSuccess && params.likeness) {
    error = cuda::LaunchDependent(LikenessKernel, WarpGrid(params.NumBlocks()), kMeanThreads, 0, stream, params);
  }
  return error == cudaSuccess ? LaunchScores(params, stream) : error;
}

cudaError_t LaunchKeyMeans(const BlockScoresParams& params, cudaStream_t stream) {
  return LaunchMeans(params, params.NumKvLists() * params.NumKeyBlocks(), stream);
}

cudaError_t LaunchWantedScores(const BlockScoresParams& params, cudaStream_t stream) {
  const int64_t begin = params.NumKvLists() * params.NumKeyBlocks();
  const cudaError_t error = cuda::LaunchDependent(BlockMeansKernel, WarpGrid(params.NumBlocks() - begin), kMeanThreads,
                                                  0, stream, params, begin, params.NumBlocks());
  return error == cudaSuccess ? LaunchScores(params, stream) : error;
}

}  // namespace headscope::kernels::selection
