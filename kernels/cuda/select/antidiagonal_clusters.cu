// SPDX-License-Identifier: Apache-2.0
// The products of XAttention's estimate by wgmma and the copy engine, where groups are whole and components come in
// slabs of 64. See antidiagonal.h.
//
// Clusters of two thread blocks take two neighbouring query tiles against one key tile: each block brings its own
// queries and one half of the keys, which the copy engine writes to both. Every byte of keys so comes from L2 once for
// 256 query groups: with a block to itself a tile takes 48 bytes a cycle, which is about what L2 gives a multiprocessor
// when all ask.
//
// In a block one warp asks for chunks of 64 components, four ahead, and two warpgroups multiply 64 query groups each.
#include <cuda_runtime.h>

#include "cluster.cuh"
#include "cluster_launch.cuh"
#include "dependent_launch.cuh"
#include "select/antidiagonal_clusters.h"
#include "select/antidiagonal_wgmma.cuh"
#include "shared_memory.cuh"
#include "shared_memory.h"
#include "transaction_barrier.cuh"

namespace headscope::kernels::selection {
namespace {

constexpr int kPairBlocks = 2;  // of a cluster
constexpr int kChunkStages = 4;
constexpr int kGroupThreads = 128;
constexpr int kPairThreads = 2 * kGroupThreads + 32;
constexpr int kChunkComponents = statistics::kSlabComponents;
constexpr uint32_t kQueryChunkBytes = kTileQueryGroups * statistics::kSlabRowBytes;
constexpr uint32_t kKeyChunkBytes = kTileKeyGroups * statistics::kSlabRowBytes;
constexpr uint32_t kChunkBytes = kQueryChunkBytes + kKeyChunkBytes;
constexpr int kPairSharedBytes = kChunkStages * static_cast<int>(kChunkBytes) + statistics::kSwizzleBytes;
constexpr int kTilesKept = 4;  // of which the producer is at most two ahead
static_assert(kTileKeyGroups == kPairBlocks * kTileQueryGroups, "a block brings as many keys as queries");
static_assert(kBandTiles % kPairBlocks == 0 && kLeastComponents / kChunkComponents >= kChunkStages);

struct PairShared {
  uint64_t full[kChunkStages];   // the chunk is there
  uint64_t empty[kChunkStages];  // all warps of both blocks have done with it
  ProductTile tiles[kTilesKept];
};

// A box of one slab of 128 groups' rows `row`, to this block or to the blocks of the mask, at the same place in each.
__device__ __forceinline__ void CopyBox(uint32_t to, const CUtensorMap& map, uint64_t* barrier, int component, int row,
                                        int group, int head, int sequence) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], "
      "[%7];" ::"r"(to),
      "l"(&map), "r"(component), "r"(row), "r"(group), "r"(head), "r"(sequence), "r"(cuda::SharedAddress(barrier))
      : "memory");
}
__device__ __forceinline__ void CopyBoxToAll(uint32_t to, const CUtensorMap& map, uint64_t* barrier, int component,
                                             int row, int group, int head, int sequence) {
  constexpr uint16_t kAllBlocks = (1u << kPairBlocks) - 1;
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3, %4, %5, %6}], [%7], %8;" ::"r"(to),
      "l"(&map), "r"(component), "r"(row), "r"(group), "r"(head), "r"(sequence), "r"(cuda::SharedAddress(barrier)),
      "h"(kAllBlocks)
      : "memory");
}

// The next pair of tiles of the cluster's, of which at least one has work, as this block's tile; no list behind the
// last.
__device__ __forceinline__ ProductTile NextTile(const AntidiagonalParams& p, int block, int clusters, int64_t* pair) {
  while (true) {
    ProductTile tiles[kPairBlocks];
    bool any = false;
#pragma unroll
    for (int i = 0; i < kPairBlocks; ++i)
      any = TileOfTicket(p, static_cast<unsigned long long>(*pair * kPairBlocks + i), &tiles[i]) || any;
    *pair += clusters;
    if (any) return block == 0 ? tiles[0] : tiles[1];
  }
}

__device__ void BringChunks(const AntidiagonalClusterParams& p, PairShared& s, uint32_t chunks) {
  const int block = cuda::BlockOfCluster(), clusters = static_cast<int>(gridDim.x) / kPairBlocks;
  const AntidiagonalParams& shape = p.shape;
  const int stride = 1 << shape.stride_log2, slabs = shape.head_dim / kChunkComponents;
  int64_t pair = cuda::ClusterNumber();
  uint32_t chunk = 0;  // of all tiles
  for (uint32_t number = 0;; ++number) {
    const ProductTile tile = NextTile(shape, block, clusters, &pair);
    const int sequence = tile.list / shape.num_qo_heads, head = tile.list % shape.num_qo_heads;
    const int kv_head = head / (shape.num_qo_heads / shape.num_kv_heads);
    for (int row = 0; row < stride; ++row) {
      for (int slab = 0; slab < slabs; ++slab, ++chunk) {
        const uint32_t stage = chunk % kChunkStages;
        cuda::AwaitBarrier(&s.empty[stage], (chunk / kChunkStages & 1) ^ 1);
        if (row == 0 && slab == 0) s.tiles[number % kTilesKept] = tile;
        if (tile.list < 0) {
          cuda::ArriveExpecting(&s.full[stage], 0);
          return;
        }
        cuda::ArriveExpecting(&s.full[stage], kChunkBytes);
        const uint32_t to = chunks + stage * kChunkBytes;
        CopyBox(to, p.q, &s.full[stage], slab * kChunkComponents, stride - 1 - row, tile.query_tile * kTileQueryGroups,
                head, sequence);
        CopyBoxToAll(to + kQueryChunkBytes + static_cast<uint32_t>(block) * kQueryChunkBytes, p.k, &s.full[stage],
                     slab * kChunkComponents, row, tile.key_tile * kTileKeyGroups + block * kTileQueryGroups, kv_head,
                     sequence);
      }
    }
  }
}

template <bool kBf16>
__device__ __forceinline__ void MultiplyChunks(const AntidiagonalClusterParams& p, PairShared& s, uint32_t chunks,
                                               int warp) {
  const int thread = static_cast<int>(threadIdx.x), group = warp / 4;
  const AntidiagonalParams& shape = p.shape;
  const uint64_t queries = statistics::DescribeOperand(chunks + static_cast<uint32_t>(group) * (kQueryChunkBytes / 2));
  const uint64_t keys = statistics::DescribeOperand(chunks + kQueryChunkBytes);
  const int num_chunks = (shape.head_dim << shape.stride_log2) / kChunkComponents;
  const auto release = [&](uint32_t chunk) {
    if (thread % 32 < kPairBlocks) cuda::ArriveInBlock(&s.empty[chunk % kChunkStages], thread % 32);
  };
  // Where a tile's chunks begin; the same for all lanes, so that warps stay together around products.
  const auto next_tile = [&](uint32_t number, uint32_t chunk) {
    cuda::AwaitBarrier(&s.full[chunk % kChunkStages], chunk / kChunkStages & 1);
    ProductTile tile = s.tiles[number % kTilesKept];
    tile.list = __shfl_sync(0xffffffffu, tile.list, 0);
    return tile;
  };
  uint32_t chunk = 0;  // of all tiles
  ProductTile tile = next_tile(0, 0);
  for (uint32_t number = 0; tile.list >= 0; ++number) {
    WarpScores scores;
#pragma unroll 1
    for (int i = 0; i < num_chunks; ++i, ++chunk) {
      const uint32_t stage = chunk % kChunkStages;
      cuda::AwaitBarrier(&s.full[stage], chunk / kChunkStages & 1);
      __syncwarp();
      const uint64_t offset = static_cast<uint64_t>(stage) * (kChunkBytes / 16);
      FenceScores(scores);
      statistics::BeginProducts();
#pragma unroll
      for (int step = 0; step < kChunkComponents / 16; ++step)
        Multiply64x256<kBf16>(scores, queries + offset + 2 * step, keys + offset + 2 * step, i + step);
      statistics::CommitProducts();
      if (i > 0) {
        WaitForProductsBeforeLast();
        release(chunk - 1);
      }
    }
    statistics::WaitForProducts();
    FenceScores(scores);
    release(chunk - 1);
    StoreTile<0, 64>(shape, tile.list, tile.query_tile * kTileQueryGroups + warp * 16, tile.key_tile * kTileKeyGroups,
                     scores);
    tile = next_tile(number + 1, chunk);
  }
}

template <bool kBf16>
__global__ void __launch_bounds__(kPairThreads, 1)
    AntidiagonalClusterKernel(const __grid_constant__ AntidiagonalClusterParams p) {
  extern __shared__ uint4 memory[];
  __shared__ PairShared shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);  // so that it is known to be one for all lanes
  if (thread == 0) {
    constexpr uint32_t kReaders = 2 * kGroupThreads / 32 * kPairBlocks;
    for (int stage = 0; stage < kChunkStages; ++stage) {
      cuda::InitBarrier(&shared.full[stage], 1);
      cuda::InitBarrier(&shared.empty[stage], kReaders);
    }
    cuda::ShowBarriersToCluster();
  }
  cuda::ArriveAtClusterRelaxed();
  cuda::AwaitCluster();
  // The swizzle counts from multiples of 1024.
  constexpr uint32_t kBelow = statistics::kSwizzleBytes - 1;
  const uint32_t chunks = (cuda::SharedAddress(memory) + kBelow) & ~kBelow;
  if (warp == 2 * kGroupThreads / 32) {
    if (thread % 32 == 0) BringChunks(p, shared, chunks);
    __syncwarp();
  } else {
    MultiplyChunks<kBf16>(p, shared, chunks, warp);
  }
  cuda::LetNextKernelStart();
  cuda::ArriveAtClusterRelaxed();  // the other block's copies and arrivals come here until it has done with all chunks
  cuda::AwaitCluster();
}

template <bool kBf16>
cudaError_t LaunchPairs(const AntidiagonalClusterParams& params, int num_multiprocessors, cudaStream_t stream) {
  const auto kernel = AntidiagonalClusterKernel<kBf16>;
  if (const cudaError_t error = AllowSharedMemory(kernel); error != cudaSuccess) return error;
  cudaLaunchAttribute cluster;
  cudaLaunchConfig_t config =
      cuda::ClusterLaunch(num_multiprocessors / kPairBlocks, kPairBlocks, kPairThreads, kPairSharedBytes, &cluster);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, params);
}

}  // namespace

cudaError_t LaunchAntidiagonalClusters(const AntidiagonalClusterParams& params, bool is_bf16, int num_multiprocessors,
                                       cudaStream_t stream) {
  return is_bf16 ? LaunchPairs<true>(params, num_multiprocessors, stream)
                 : LaunchPairs<false>(params, num_multiprocessors, stream);
}

}  // namespace headscope::kernels::selection
