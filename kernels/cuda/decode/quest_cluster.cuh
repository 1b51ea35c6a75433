// SPDX-License-Identifier: Apache-2.0
// Quest's step in one launch: a cluster of thread blocks a list. Each block scores a share of the list's pages and
// sends their keys to the others; each then finds the best pages by itself, so that nothing goes through memory, and
// attends to its share of them; a column of the output is merged by one block, to which the others send their parts.
// Where there are as many lists as multiprocessors a cluster is one block, and lists wait for nothing but themselves.
//
// Bounds of pages, then rows of K and V come through the same rings of tiles, one for each warp, as in dense decode.
#pragma once

#include <algorithm>
#include <cstddef>

#include "async_copy.cuh"
#include "cluster.cuh"
#include "cluster_launch.cuh"
#include "decode/dense_merge.cuh"
#include "decode/page_scores.cuh"
#include "decode/page_search.cuh"
#include "decode/quest_cluster.h"
#include "decode/tensor_core.cuh"
#include "shared_memory.h"
#include "transaction_barrier.cuh"

namespace headscope::kernels::decode {

constexpr int kStepWarps = kDenseWarps, kStepThreads = kStepWarps * 32, kStepStages = 3;
constexpr int kMostStepBlocks = cuda::kMostClusterBlocks;
static_assert(kStepThreads == kSearchThreads);

constexpr int kTilePages = 16;

// A column's part of a block, as it is sent: four components of a head, and their softmax.
struct alignas(16) SentPart {
  float4 values;
  float best, sum;
  float unused[2];
};

// Shared memory of a block, in bytes. Parts of the output come where keys were.
template <typename T, int D>
struct QuestStepRoom {
  static constexpr int kRing = kStepWarps * kStepStages * SharedTile<T, D>::kElements * static_cast<int>(sizeof(T));
  int keys, total;

  __host__ __device__ explicit QuestStepRoom(const QuestStepParams& p) {
    const int of_keys = (p.candidates + kKeysOfTurn - 1) / kKeysOfTurn * kKeysOfTurn * 4;
    // Of each block its share of the columns, which are as many as all blocks' here.
    const int of_parts = (p.x.group * D / 4 + kMostStepBlocks) * static_cast<int>(sizeof(SentPart));
    keys = of_keys > of_parts ? of_keys : of_parts;
    total = kRing + keys + (p.picks + 1) * 4;
  }
};

// The query heads of a list, as StoreColumn knows them.
struct QuestHeads {
  int64_t query_head;
  int sequence, head, heads;
};

// Params: QuestStepParams, with sinks or without.
template <typename T, int D, typename Params>
__global__ void __launch_bounds__(kStepThreads, 1) QuestStepKernel(const __grid_constant__ Params p) {
#if __CUDA_ARCH__ >= 900
  using Tile = SharedTile<T, D>;
  constexpr int kLanes = 2 * D / 8, kTeams = 32 / kLanes, kEach = 16 / kTeams;  // of a page; pages of a lane
  extern __shared__ __align__(128) char shared[];
  __shared__ PageSearchShared search;
  __shared__ uint64_t keys_came, parts_came;  // from the cluster's other blocks
  const QuestStepRoom<T, D> room(p);
  auto* const keys = reinterpret_cast<uint32_t*>(shared + room.kRing);
  auto* const chosen = reinterpret_cast<int32_t*>(shared + room.kRing + room.keys);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int list = cuda::ClusterNumber(), blocks = cuda::ClusterBlocks(), block = cuda::BlockOfCluster();
  const int sequence = Quotient(list, p.by_kv_heads), kv_head = list - sequence * p.x.num_kv_heads;
  const int first_tile = block * kStepWarps + warp, tile_stride = blocks * kStepWarps;
  T* const ring = reinterpret_cast<T*>(shared) + warp * kStepStages * Tile::kElements;
  // Pages of a block are neighbours, so that their keys go to the others in one piece each.
  const int page_tiles = (p.candidates + kTilePages - 1) / kTilePages, tiles_each = (page_tiles + blocks - 1) / blocks;
  const auto first_page_tile = [&](int b) { return min(b * tiles_each, page_tiles); };
  if (thread == 0) {
    cuda::InitBarrier(&keys_came, 1);
    cuda::InitBarrier(&parts_came, 1);
    cuda::ShowBarriersToCluster();
  }
  cuda::ArriveAtClusterRelaxed();

  {  // scores, 16 pages a tile; a lane reads from the ring what it has copied itself
    const int team = lane / kLanes, part = lane % kLanes, end = first_page_tile(block + 1);
    const T* const rows = static_cast<const T*>(p.bounds) + list * p.bounds_list + part * 8;
    T* const to = ring + team * 2 * D + part * 8;
    const uint64_t cache_policy = CachePolicy(p.bounds_leave_first);
    int ahead = first_page_tile(block) + warp, ahead_stage = 0;
    const auto request = [&] {
      if (ahead < end) {
#pragma unroll
        for (int u = 0; u < kEach; ++u) {
          const int page = min(ahead * kTilePages + u * kTeams + team, p.candidates - 1);
          CopyAsync(to + ahead_stage * Tile::kElements + u * kTeams * 2 * D, rows + int64_t{page} * 2 * D,
                    cache_policy);
        }
      }
      cuda::EndCopyGroup();
      ahead += kStepWarps;
      if (++ahead_stage == kStepStages) ahead_stage = 0;
    };
    for (int stage = 1; stage < kStepStages; ++stage) request();
    float factor[8];
    PageFactors<T, D>(p, sequence, kv_head, part, factor);
    for (int i = p.candidates + thread; i < room.keys / 4; i += kStepThreads) keys[i] = 0;
    int stage = 0;
#pragma unroll 1
    for (int tile = first_page_tile(block) + warp; tile < end; tile += kStepWarps) {
      request();
      cuda::AwaitCopyGroups<kStepStages - 1>();
      float dot[kEach];
#pragma unroll
      for (int u = 0; u < kEach; ++u) {
        dot[u] =
            PartOfScore<T>(factor, *reinterpret_cast<const uint4*>(to + stage * Tile::kElements + u * kTeams * 2 * D));
      }
      if (++stage == kStepStages) stage = 0;
      const int page = tile * kTilePages + SumOfParts<kEach, kLanes>(dot) * kTeams + team;
      if (lane % (kLanes / kEach) == 0 && page < p.candidates) keys[page] = PageKey(dot[0]);
    }
  }
  const QuestHeads heads{
      .query_head = int64_t{list} * p.x.group, .sequence = sequence, .head = kv_head * p.x.group, .heads = p.x.group};
  WarpAttention<T, D, QueryFragment<T, D>> attention;
  attention.query.Load(static_cast<const T*>(p.x.q) + sequence * p.x.q_batch + heads.head * p.x.q_head, p.x.q_head,
                       heads.heads);
  attention.out.Clear();
  cuda::AwaitCluster();  // the others have started
  if (blocks > 1) {
    cuda::ShowToCopies();
    __syncthreads();
    const auto tile_bytes = [&](int tiles) { return static_cast<uint32_t>(tiles) * kTilePages * 4; };
    const int mine = first_page_tile(block), own_tiles = first_page_tile(block + 1) - mine;
    if (thread == 0) cuda::ArriveExpecting(&keys_came, tile_bytes(page_tiles - own_tiles));
    if (thread < blocks && thread != block && own_tiles > 0) {
      uint32_t* const own = keys + mine * kTilePages;
      cuda::CopyToBlock(own, own, tile_bytes(own_tiles), &keys_came, thread);
    }
    cuda::AwaitBarrier(&keys_came, 0);
  } else {
    __syncthreads();
  }

  if (p.picks > 0) SearchPages(keys, p.candidates, p.picks, chosen, search);
  const int num_chosen = p.picks + (p.newest ? 1 : 0);
  if (p.newest && thread == 0) chosen[p.picks] = p.num_pages - 1;
  __syncthreads();
  if (blocks > 1) cuda::ArriveAtClusterRelaxed();  // parts may come where the keys were
  if (p.pages != nullptr && block == 0) {
    for (int i = thread; i < num_chosen; i += kStepThreads) p.pages[int64_t{list} * num_chosen + i] = chosen[i];
  }

  {  // attention, 16 tokens a tile
    const T* const k = static_cast<const T*>(p.x.k) + sequence * p.x.k_batch + kv_head * p.x.k_head;
    const T* const v = static_cast<const T*>(p.x.v) + sequence * p.x.v_batch + kv_head * p.x.v_head;
    const int count =
        (num_chosen - 1) * p.page_size + min(p.page_size, p.x.seq_k - chosen[num_chosen - 1] * p.page_size);
    const int tiles = (count + 15) / 16;
    const uint64_t cache_policy = CachePolicy(p.rows_leave_first);
    int ahead = first_tile, ahead_stage = 0;
    const auto request = [&] {
      if (ahead < tiles) {
        const int number = min(ahead * 16 + lane % 16, count - 1), page = Quotient(number, p.by_page);
        const int row = chosen[page] * p.page_size + (number - page * p.page_size);
        Tile{ring + ahead_stage * Tile::kElements}.Request(
            k, p.x.k_row, v, p.x.v_row, [&](int token) { return int64_t{__shfl_sync(kAllLanes, row, token)}; },
            cache_policy);
      }
      cuda::EndCopyGroup();
      ahead += tile_stride;
      if (++ahead_stage == kStepStages) ahead_stage = 0;
    };
    for (int stage = 1; stage < kStepStages; ++stage) request();
    int stage = 0;
#pragma unroll 1
    for (int tile = first_tile; tile < tiles; tile += tile_stride) {
      request();
      cuda::AwaitCopyGroups<kStepStages - 1>();
      __syncwarp();
      attention.Step(Tile{ring + stage * Tile::kElements}, p.x.scale, p.soft_cap, count - tile * 16);
      __syncwarp();  // before the next request overwrites the tile
      if (++stage == kStepStages) stage = 0;
    }
  }
  __syncthreads();  // the rings have served
  const auto merged = reinterpret_cast<float(*)[D + 2]>(shared);
  attention.Finish(heads.heads, merged + warp * heads.heads);
  __syncthreads();
  const int columns = heads.heads * D / 4;
  if (blocks == 1) {
    for (int column = thread; column < columns; column += kStepThreads)
      StoreColumn<T, D>(p, heads, column, SumOfWarps<D>(merged, kStepWarps, heads.heads, column));
    return;
  }
  // Each block merges a share of the columns, which it gets from the others in one piece each.
  auto* const parts = reinterpret_cast<SentPart*>(shared + sizeof(*merged) * kStepWarps * heads.heads);
  auto* const received = reinterpret_cast<SentPart*>(keys);  // [blocks, columns_each]
  const int columns_each = (columns + blocks - 1) / blocks;
  const auto first_column = [&](int b) { return min(b * columns_each, columns); };
  for (int column = thread; column < columns; column += kStepThreads) {
    const PartialSum all = SumOfWarps<D>(merged, kStepWarps, heads.heads, column);
    parts[column] = {make_float4(all.v[0], all.v[1], all.v[2], all.v[3]), all.best, all.sum, {}};
  }
  cuda::ShowToCopies();
  __syncthreads();
  cuda::AwaitCluster();  // all have searched
  const int slice = first_column(block), own_columns = first_column(block + 1) - slice;
  const auto part_bytes = [](int count) { return static_cast<uint32_t>(count * static_cast<int>(sizeof(SentPart))); };
  if (thread == 0) cuda::ArriveExpecting(&parts_came, part_bytes(own_columns * (blocks - 1)));
  if (thread < blocks && thread != block) {
    const int first = first_column(thread), count = first_column(thread + 1) - first;
    if (count > 0)
      cuda::CopyToBlock(received + block * columns_each, parts + first, part_bytes(count), &parts_came, thread);
  }
  cuda::AwaitBarrier(&parts_came, 0);
  const MergeLanes lanes(blocks);
#pragma unroll 1
  for (int base = 0; base < own_columns; base += lanes.groups) {
    const int column = base + lanes.group;
    PartialSum all;
    if (column < own_columns && lanes.part < blocks) {
      const SentPart& part = lanes.part == block ? parts[slice + column] : received[lanes.part * columns_each + column];
      all = {{part.values.x, part.values.y, part.values.z, part.values.w}, part.best, part.sum};
    }
    __syncwarp();
    all.AddLanes(lanes.width);
    if (lanes.part == 0 && column < own_columns) StoreColumn<T, D>(p, heads, slice + column, all);
  }
  cuda::ArriveAtClusterRelaxed();  // what this block has sent has arrived when all have theirs
  cuda::AwaitCluster();
#endif
}

// How many blocks a list's cluster has, or 0: the step is better off in several launches. As many as there are
// multiprocessors for, fit the GPU at once, and have work. Where it cannot be told how many fit, none are taken.
template <auto kKernel>
int ClusterBlocksOf(const QuestStepParams& p, const QuestStepDevice& device) {
  if (p.lists > device.num_multiprocessors) {
    // One block a list, in waves of which the last must be nearly full as well.
    const int waves = (p.lists + device.num_multiprocessors - 1) / device.num_multiprocessors;
    return int64_t{10} * p.lists >= int64_t{9} * waves * device.num_multiprocessors ? 1 : 0;
  }
  const int64_t tokens = (int64_t{p.picks} + 1) * p.page_size;
  const int64_t tiles = (std::max<int64_t>(p.candidates, tokens) + 15) / 16;
  const auto of_work =
      static_cast<int>(std::min<int64_t>((tiles + kStepWarps - 1) / kStepWarps, cuda::kMostClusterBlocks));
  for (int tried = std::min(device.num_multiprocessors / p.lists, of_work); tried > 0; --tried) {
    // Half of the multiprocessors keep memory nearly as busy as all; short steps gain in any case.
    if (tried < std::min(of_work, cuda::kMostClusterBlocks / 2) && 2 * tried * p.lists < device.num_multiprocessors)
      return 0;
    int clusters = device.num_multiprocessors;
    if (tried > 1 && cuda::ClustersAtOnce<kKernel>(tried, kStepThreads, &clusters) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // so that the launches in this one's place do not report it
      return 0;
    }
    if (clusters >= p.lists) return tried;
  }
  return 0;
}

template <typename T, int D, typename Params>
cudaError_t LaunchQuestStepOf(const Params& p, const QuestStepDevice& device, cudaStream_t stream, bool* launched) {
  if (p.candidates > kMostSearched || p.x.group > kMaxDenseGroup) return cudaSuccess;
  constexpr auto kKernel = QuestStepKernel<T, D, Params>;
  // Which code runs is for the runtime to say, not for the GPU's version.
  cudaFuncAttributes code{};
  const auto* const function = reinterpret_cast<const void*>(kKernel);
  if (const cudaError_t error = cudaFuncGetAttributes(&code, function); error != cudaSuccess) return error;
  const int room = device.shared_of_block - static_cast<int>(code.sharedSizeBytes);
  // At least so much that a multiprocessor has one block.
  const int shared_bytes = std::max(QuestStepRoom<T, D>(p).total, device.shared_of_multiprocessor / 2);
  if (!cuda::IsHopperCode(code) || shared_bytes > room) return cudaSuccess;
  if (const cudaError_t error = AllowSharedMemory(kKernel); error != cudaSuccess) return error;
  if (cuda::AllowLargeClusters(function) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return cudaSuccess;
  }
  const int blocks = ClusterBlocksOf<kKernel>(p, device);
  if (blocks == 0) return cudaSuccess;
  cudaLaunchAttribute cluster;
  cudaLaunchConfig_t config = cuda::ClusterLaunch(p.lists, blocks, kStepThreads, shared_bytes, &cluster);
  config.stream = stream;
  *launched = true;
  return cudaLaunchKernelEx(&config, kKernel, p);
}

template <typename T>
cudaError_t LaunchQuestStep(const WithSinks<QuestStepParams>& params, int head_dim, const QuestStepDevice& device,
                            cudaStream_t stream, bool* launched) {
  const auto launch = [&]<int D>() {
    const QuestStepParams& without = params;
    if (params.sinks.count > 0) return LaunchQuestStepOf<T, D>(params, device, stream, launched);
    return LaunchQuestStepOf<T, D>(without, device, stream, launched);
  };
  return head_dim == 64 ? launch.template operator()<64>() : launch.template operator()<128>();
}

}  // namespace headscope::kernels::decode
