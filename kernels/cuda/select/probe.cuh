// SPDX-License-Identifier: Apache-2.0
// The probe's two kernels. With scores as probe_scores.cuh has them, a column's mass is a sum inside a thread and its
// row of four lanes, and a diagonal's mass is a sum inside a thread whose register moves on by one place per 8 keys.
#pragma once

#include <cuda_runtime.h>

#include "dependent_launch.cuh"
#include "select/probe_line_sums.cuh"
#include "select/probe_row_sums.cuh"
#include "select/probe_scores.cuh"
#include "shared_memory.h"

namespace headscope::kernels::selection {

// With the queries and rings of head_dim 256 this just fits into the 99 KiB of a block on compute capability 8.6.
static_assert((QueryPieces(256) + kProbeWarps * RingPieces(256)) * sizeof(uint4) + sizeof(SharedRows) <= 99 * 1024);

// One strip of one unit. kSums == false: row statistics into p.row_partials. kSums == true: column and diagonal sums.
template <bool kBf16, int kHeadDim, bool kSums>
__global__ void __launch_bounds__(kProbeThreads, 4) ProbeKernel(const ProbeParams p) {
  extern __shared__ __align__(128) uint4 pieces[];  // whole tiles: places in them are told apart by address bits
  __shared__ __align__(16) SharedRows shared;
  const int units_of_group = p.group_size * p.UnitsPerHead();
  // The second pass begins where the first ended, with each thread block and with the last of them: those keys may
  // still be in the cache.
  const int block = static_cast<int>(kSums ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  const int unit_of_group = block % units_of_group;
  const int32_t strip = block / units_of_group % p.num_strips;
  const int kv_list = block / units_of_group / p.num_strips;
  const int sequence = kv_list / p.num_kv_heads;
  const int kv_head = kv_list % p.num_kv_heads;
  const int head = kv_head * p.group_size + unit_of_group / p.UnitsPerHead();
  const int unit_of_head = unit_of_group % p.UnitsPerHead();
  const UnitRows rows = RowsOfUnit(p, unit_of_head / p.units_per_chunk, unit_of_head % p.units_per_chunk);
  const int32_t block_key = strip * kProbeWarps * p.keys_per_warp;
  if (block_key >= rows.VisibleKeys()) return;
  const int64_t unit = (int64_t{sequence} * p.num_qo_heads + head) * p.UnitsPerHead() + unit_of_head;

  cuda::LetNextKernelStart();
  RequestQueries<kHeadDim>(p, rows, sequence * p.q.batch_stride + head * p.q.head_stride, pieces);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int32_t begin = block_key + warp * p.keys_per_warp;
  const int32_t end = min(begin + p.keys_per_warp, rows.VisibleKeys());
  ProbeWarp<kBf16, kHeadDim, /*kBackward=*/!kSums> probe(
      p, pieces, rows, sequence * p.k.batch_stride + kv_head * p.k.head_stride, begin, end);
  if constexpr (kSums) {
    cuda::WaitForKernelBefore();
    LoadRowStatistics(p, rows, unit, shared);
  }
  cuda::AwaitCopyGroups<kStages - 1>();  // the queries
  __syncthreads();

  float scores[kRowGroups][4];
  if constexpr (!kSums) {
    RowStatistics statistics;
    const int32_t num_tiles = (end - begin + kTileKeys - 1) / kTileKeys;
    for (int32_t tile = num_tiles - 1; tile >= 0; --tile) {
      probe.Score(begin + tile * kTileKeys, scores);
      statistics.Add(scores, probe.Factor());
    }
    statistics.Store(shared.rows[warp]);
    __syncthreads();
    const int row = static_cast<int>(threadIdx.x);
    if (row < kUnitRows) {
      float2 merged = shared.rows[0][row];
#pragma unroll
      for (int w = 1; w < kProbeWarps; ++w) MergeRow(merged, shared.rows[w][row]);
      p.row_partials[(unit * p.num_strips + strip) * kUnitRows + row] = merged;
    }
  } else if (begin < end) {
    LineSums sums(p, rows, unit, strip * kProbeWarps + warp);
    int32_t key = begin;
    for (; key < end; key += kTileKeys) {
      probe.Score(key, scores);
#pragma unroll
      for (int n = 0; n < kRowGroups; ++n) {
        const float2 lse = *reinterpret_cast<const float2*>(&shared.row_lse[8 * n + threadIdx.x % 4 * 2]);
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          scores[n][c] = Exp2(fmaf(scores[n][c], probe.Factor(), c % 2 == 0 ? -lse.x : -lse.y));
        }
      }
      sums.Add(key, scores);
    }
    sums.Finish(key - kTileKeys);
  }
}

template <bool kBf16, int kHeadDim>
cudaError_t LaunchProbeOfHeadDim(const ProbeParams& params, int32_t batch, cudaStream_t stream) {
  constexpr size_t kSharedBytes =
      static_cast<size_t>(QueryPieces(kHeadDim) + kProbeWarps * RingPieces(kHeadDim)) * sizeof(uint4);
  const auto statistics = ProbeKernel<kBf16, kHeadDim, false>;
  const auto sums = ProbeKernel<kBf16, kHeadDim, true>;
  for (const auto kernel : {statistics, sums}) {
    const cudaError_t error = AllowSharedMemory(kernel);
    if (error != cudaSuccess) return error;
  }
  const int64_t num_blocks = int64_t{batch} * params.num_qo_heads * params.UnitsPerHead() * params.num_strips;
  const dim3 grid(static_cast<unsigned>(num_blocks));
  statistics<<<grid, kProbeThreads, kSharedBytes, stream>>>(params);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  return cuda::LaunchDependent(sums, grid, kProbeThreads, kSharedBytes, stream, params);
}

// head_dim is one of those that SelectCuda takes.
template <bool kBf16>
cudaError_t LaunchProbeOf(const ProbeParams& params, int32_t batch, cudaStream_t stream) {
  switch (params.head_dim) {
    case 64:
      return LaunchProbeOfHeadDim<kBf16, 64>(params, batch, stream);
    case 96:
      return LaunchProbeOfHeadDim<kBf16, 96>(params, batch, stream);
    case 128:
      return LaunchProbeOfHeadDim<kBf16, 128>(params, batch, stream);
    case 256:
      return LaunchProbeOfHeadDim<kBf16, 256>(params, batch, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace headscope::kernels::selection
