// SPDX-License-Identifier: Apache-2.0
// The products of XAttention's estimate on any GPU from compute capability 8.0 on. See antidiagonal.h.
#pragma once

#include <cuda_runtime.h>

#include "dependent_launch.cuh"
#include "mma.cuh"
#include "select/antidiagonal_tiles.cuh"
#include "shared_memory.cuh"
#include "shared_memory.h"

namespace headscope::kernels::selection {

constexpr int kWarpGroups = 64;  // 2 x 4 warps with 64 x 64 scores each
constexpr int kRowPieces = 4;    // chunks of 32 components
constexpr int kChunkStages = 4;
constexpr int kProductSharedBytes =
    kChunkStages * ChunkLoader<kRowPieces>::kChunkPieces * static_cast<int>(sizeof(uint4));
static_assert(kProductSharedBytes <= 98 * 1024);  // a thread block of compute capability 8.6 has 99 KiB
// The next tile is known from the chunk behind the third on, and its first copies begin kChunkStages - 1 chunks before
// the end.
static_assert(kLeastComponents / ChunkLoader<kRowPieces>::kComponents - (kChunkStages - 1) >= 3);

template <bool kBf16>
__global__ void __launch_bounds__(kProductThreads, 1) AntidiagonalKernel(const AntidiagonalParams p) {
  using Loader = ChunkLoader<kRowPieces>;
  constexpr int kEightRows = Loader::kEightRows;
  extern __shared__ __align__(128) uint4 chunks[];  // places in them are told apart by address bits
  __shared__ ProductTile tiles[2];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  if (thread == 0) tiles[0] = TakeTile(p, atomicAdd(p.progress, 1ull));
  __syncthreads();
  ProductTile tile = tiles[0];
  if (tile.list < 0) return;
  const uint32_t shared = cuda::SharedAddress(chunks);
  Loader loader(p, shared);
  loader.Begin(tile);
#pragma unroll
  for (int stage = 0; stage + 1 < kChunkStages; ++stage) loader.Request(stage);

  // The lane's rows of the matrices: of queries group lane / 8 % 2 of 8, components 8 (lane / 16) on; of keys group
  // lane / 16, components 8 (lane / 8 % 2) on.
  const int query_piece = (warp / 4 * 8 + lane / 8 % 2) * kEightRows + Loader::PieceOfEightRows(lane % 8, lane / 16);
  const int key_piece =
      Loader::kQueryPieces + (warp % 4 * 8 + lane / 16) * kEightRows + Loader::PieceOfEightRows(lane % 8, lane / 8 % 2);
  const uint32_t query_place = shared + static_cast<uint32_t>(query_piece) * 16;
  const uint32_t key_place = shared + static_cast<uint32_t>(key_piece) * 16;
  constexpr uint32_t kTwoGroups = 2 * kEightRows * 16;

  int stage = 0;
  int next = 1;  // the place of the next tile
  unsigned long long ticket = 0;
  while (true) {
    WarpScores scores;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[m][n][c] = 0;
      }
    }
#pragma unroll 1
    for (int chunk = 0; chunk < loader.num_chunks(); ++chunk) {
      cuda::AwaitCopyGroups<kChunkStages - 2>();
      __syncthreads();  // the chunk is there, and the stage that is filled now was used up
      if (thread == 0) {
        if (chunk == 0) ticket = atomicAdd(p.progress, 1ull);
        if (chunk == 2) tiles[next] = TakeTile(p, ticket);
      }
      if (loader.AtEnd()) loader.Begin(tiles[next]);
      loader.Request(stage == 0 ? kChunkStages - 1 : stage - 1);
      const uint32_t stage_bytes = static_cast<uint32_t>(stage * Loader::kChunkPieces) * 16;
      stage = stage + 1 == kChunkStages ? 0 : stage + 1;
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const uint32_t other_half = step == 0 ? 0 : 2 * 16;
        uint32_t q[4][4];
        uint32_t k[4][4];
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          cuda::LoadMatrices(q[m], ((query_place + stage_bytes) ^ other_half) + static_cast<uint32_t>(m) * kTwoGroups);
        }
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          cuda::LoadMatrices(k[n], ((key_place + stage_bytes) ^ other_half) + static_cast<uint32_t>(n) * kTwoGroups);
        }
#pragma unroll
        for (int m = 0; m < 4; ++m) {
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            cuda::Mma<kBf16>(scores[m][2 * n], q[m], k[n][0], k[n][1]);
            cuda::Mma<kBf16>(scores[m][2 * n + 1], q[m], k[n][2], k[n][3]);
          }
        }
      }
    }
    StoreTile<16, 0>(p, tile.list, tile.query_tile * kTileQueryGroups + warp / 4 * kWarpGroups,
                     tile.key_tile * kTileKeyGroups + warp % 4 * kWarpGroups, scores);
    tile = tiles[next];
    next ^= 1;
    if (tile.list < 0) break;
  }
  cuda::LetNextKernelStart();
}

template <bool kBf16>
cudaError_t LaunchAntidiagonal(const AntidiagonalParams& params, int num_multiprocessors, cudaStream_t stream) {
  cudaError_t error = cudaMemsetAsync(params.progress, 0, sizeof(*params.progress), stream);
  if (error == cudaSuccess) error = AllowSharedMemory(AntidiagonalKernel<kBf16>);
  if (error != cudaSuccess) return error;
  AntidiagonalKernel<kBf16>
      <<<static_cast<unsigned>(num_multiprocessors), kProductThreads, kProductSharedBytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::selection
