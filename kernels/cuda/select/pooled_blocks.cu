// Means of blocks of 64 rows, as terms of products.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "select/pooled_blocks.h"

namespace headscope::kernels::selection {
namespace {

constexpr int kPoolThreads = 128;
constexpr int kAhead = 8;  // loads of a lane in flight
constexpr unsigned kFullWarp = 0xffffffffu;

__device__ __forceinline__ void AddEight(const uint4& raw, bool is_bf16, float (&sums)[8]) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = is_bf16 ? float2{__uint_as_float(words[i] << 16), __uint_as_float(words[i] & 0xffff0000u)}
                                : __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
    sums[2 * i] += pair.x;
    sums[2 * i + 1] += pair.y;
  }
}

// Eight components of a mean, scaled, as high and low terms.
__device__ __forceinline__ void Split(const float (&mean)[8], float scale, uint4* high, uint4* low) {
  uint32_t highs[4];
  uint32_t lows[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = {mean[2 * i] * scale, mean[2 * i + 1] * scale};
    const __half2 rounded = __float22half2_rn(pair);
    const float2 taken = __half22float2(rounded);
    const __half2 left = __float22half2_rn({pair.x - taken.x, pair.y - taken.y});
    highs[i] = *reinterpret_cast<const uint32_t*>(&rounded);
    lows[i] = *reinterpret_cast<const uint32_t*>(&left);
  }
  *high = {highs[0], highs[1], highs[2], highs[3]};
  *low = {lows[0], lows[1], lows[2], lows[3]};
}

// A warp per block of 64 rows, those of Q first. Neighbouring lanes take neighbouring 16 bytes of a row, and as many
// rows as that leaves lanes for go at once. A ragged last block is the mean of its valid rows.
__global__ void __launch_bounds__(kPoolThreads) PoolKernel(const PooledBlocksParams p) {
  const uint32_t at = blockIdx.x * (kPoolThreads / 32) + threadIdx.x / 32;
  if (at >= p.NumBlocks()) return;
  const auto num_q_blocks = static_cast<uint32_t>(p.NumQueryBlocks());
  const bool is_query = at < num_q_blocks;
  const uint32_t block_of_tensor = is_query ? at : at - num_q_blocks;
  const auto blocks_per_head = static_cast<uint32_t>(is_query ? p.num_query_blocks : p.num_key_blocks);
  const auto heads = static_cast<uint32_t>(is_query ? p.num_qo_heads : p.num_kv_heads);
  const uint32_t list = block_of_tensor / blocks_per_head;
  const uint32_t block = block_of_tensor % blocks_per_head;
  const StridedTensor<const void>& tensor = is_query ? p.q : p.k;
  const int num_rows = min(kPoolRows, (is_query ? p.seq_q : p.num_visible_keys) - static_cast<int>(block) * kPoolRows);

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pieces = p.head_dim / 8;
  const int rows_at_once = 32 / pieces;
  const int piece = lane % pieces;
  const int lane_row = lane / pieces;
  const auto* const from = static_cast<const uint16_t*>(tensor.data) + list / heads * tensor.batch_stride +
                           list % heads * tensor.head_stride + int64_t{block} * kPoolRows * tensor.row_stride +
                           piece * 8;
  float sums[8] = {};
  const int last_row = lane_row < rows_at_once ? num_rows : 0;  // a head_dim of 96 leaves 8 lanes over
  for (int first = lane_row; first < kPoolRows; first += kAhead * rows_at_once) {
    uint4 raw[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int row = first + i * rows_at_once;
      raw[i] = row < last_row ? __ldcs(reinterpret_cast<const uint4*>(from + row * tensor.row_stride)) : uint4{};
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) AddEight(raw[i], p.is_bf16, sums);
  }
  float totals[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) totals[i] = sums[i];
  for (int row = 1; row < rows_at_once; ++row) {
#pragma unroll
    for (int i = 0; i < 8; ++i) totals[i] += __shfl_down_sync(kFullWarp, sums[i], static_cast<unsigned>(row * pieces));
  }
  float mean[8];
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    mean[i] = totals[i] / static_cast<float>(num_rows);
    if (lane < pieces) largest = fmaxf(largest, fabsf(mean[i]));
  }
  // Numbers that are not negative are ordered as their bits. The scale is 2^127 at most.
  const uint32_t bits = __reduce_max_sync(kFullWarp, __float_as_uint(largest));
  const uint32_t exponent = max(bits >> 23, 14u);
  const float scale = __uint_as_float((268u - exponent) << 23);
  if (lane < pieces) {
    const uint32_t group =
        list * static_cast<uint32_t>(TermGroups(static_cast<int32_t>(blocks_per_head))) + block / kTermGroup;
    uint4* const to = (is_query ? p.q_terms : p.k_terms) + int64_t{group} * GroupPieces(p.head_dim) +
                      piece / 4 * kStepPieces + static_cast<int>(block) % kTermGroup * 4 + piece % 4;
    Split(mean, scale, to, to + kStepPieces / 2);
  }
  if (!is_query && lane == 0) {
    p.k_factors[int64_t{list} * p.FactorPitch() + block] = exponent == 255 ? 0.0f : 1.0f / scale;
  }
}

}  // namespace

cudaError_t LaunchPoolBlocks(const PooledBlocksParams& params, cudaStream_t stream) {
  constexpr int64_t kBlocksPerThreadBlock = kPoolThreads / 32;
  const int64_t grid = (params.NumBlocks() + kBlocksPerThreadBlock - 1) / kBlocksPerThreadBlock;
  PoolKernel<<<static_cast<unsigned>(grid), kPoolThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::selection
