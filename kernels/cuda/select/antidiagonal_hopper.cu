// SPDX-License-Identifier: Apache-2.0
// The products of XAttention's estimate by wgmma. See antidiagonal.h.
//
// Two warpgroups with 64 query groups each, against all 256 key groups of the tile. Copies of a chunk of 64 components
// are issued two chunks ahead, behind the barrier that says that both warpgroups' products of the chunk before the last
// are done; the last chunk's still run then, so the tensor cores have work while chunks change.
#include <cuda_runtime.h>

#include "dependent_launch.cuh"
#include "select/antidiagonal_wgmma.cuh"
#include "shared_memory.cuh"
#include "shared_memory.h"
#include "transaction_barrier.cuh"

namespace headscope::kernels::selection {
namespace {

using Loader = ChunkLoader<8>;
constexpr int kHopperStages = 4;
constexpr int kChunksAhead = 2;
constexpr uint32_t kStageBytes = Loader::kChunkPieces * 16;
constexpr uint32_t kQueryBytes = Loader::kQueryPieces * 16;
constexpr int kHopperSharedBytes = kHopperStages * static_cast<int>(kStageBytes) + statistics::kSwizzleBytes;
static_assert(Loader::kComponents == statistics::kSlabComponents);
// The next tile is known from the chunk behind the second on.
static_assert(kLeastComponents / Loader::kComponents - kChunksAhead >= 2);

template <bool kBf16>
__global__ void __launch_bounds__(kProductThreads, 1) AntidiagonalHopperKernel(const AntidiagonalParams p) {
  extern __shared__ uint4 chunks[];
  __shared__ ProductTile tiles[2];
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  if (thread == 0) tiles[0] = TakeTile(p, atomicAdd(p.progress, 1ull));
  __syncthreads();
  ProductTile tile = tiles[0];
  if (tile.list < 0) return;
  // The swizzle counts from multiples of 1024.
  constexpr uint32_t kBelow = statistics::kSwizzleBytes - 1;
  const uint32_t shared = (cuda::SharedAddress(chunks) + kBelow) & ~kBelow;
  const uint64_t queries = statistics::DescribeOperand(shared + static_cast<uint32_t>(warp / 4) * (kQueryBytes / 2));
  const uint64_t keys = statistics::DescribeOperand(shared + kQueryBytes);
  Loader loader(p, shared);
  const int num_chunks = loader.num_chunks();
  loader.Begin(tile);
#pragma unroll
  for (int stage = 0; stage < kChunksAhead; ++stage) loader.Request(stage);

  int stage = 0;
  int next = 1;  // the place of the next tile
  unsigned long long ticket = 0;
  while (true) {
    WarpScores scores;
#pragma unroll 1
    for (int chunk = 0; chunk < num_chunks; ++chunk) {
      cuda::AwaitCopyGroups<kChunksAhead - 1>();
      cuda::ShowToCopies();
      __syncthreads();
      const uint64_t stage_offset = static_cast<uint64_t>(stage) * (kStageBytes / 16);
      FenceScores(scores);
      statistics::BeginProducts();
#pragma unroll
      for (int step = 0; step < Loader::kComponents / 16; ++step) {
        Multiply64x256<kBf16>(scores, queries + stage_offset + 2 * step, keys + stage_offset + 2 * step, chunk + step);
      }
      statistics::CommitProducts();
      if (thread == 0) {
        if (chunk == 0) ticket = atomicAdd(p.progress, 1ull);
        if (chunk == 1) tiles[next] = TakeTile(p, ticket);
      }
      __syncwarp();
      if (loader.AtEnd()) loader.Begin(tiles[next]);
      loader.Request((stage + kChunksAhead) % kHopperStages);
      stage = (stage + 1) % kHopperStages;
      WaitForProductsBeforeLast();
    }
    statistics::WaitForProducts();
    FenceScores(scores);
    StoreTile<0, 64>(p, tile.list, tile.query_tile * kTileQueryGroups + warp * 16, tile.key_tile * kTileKeyGroups,
                     scores);
    tile = tiles[next];
    next ^= 1;
    if (tile.list < 0) break;
  }
  cuda::LetNextKernelStart();
}

template <bool kBf16>
cudaError_t Launch(const AntidiagonalParams& params, int num_multiprocessors, cudaStream_t stream) {
  cudaError_t error = cudaMemsetAsync(params.progress, 0, sizeof(*params.progress), stream);
  if (error == cudaSuccess) error = AllowSharedMemory(AntidiagonalHopperKernel<kBf16>);
  if (error != cudaSuccess) return error;
  AntidiagonalHopperKernel<kBf16>
      <<<static_cast<unsigned>(num_multiprocessors), kProductThreads, kHopperSharedBytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchAntidiagonalHopperBf16(const AntidiagonalParams& params, int num_multiprocessors,
                                         cudaStream_t stream) {
  return Launch<true>(params, num_multiprocessors, stream);
}
cudaError_t LaunchAntidiagonalHopperFp16(const AntidiagonalParams& params, int num_multiprocessors,
                                         cudaStream_t stream) {
  return Launch<false>(params, num_multiprocessors, stream);
}

}  // namespace headscope::kernels::selection
