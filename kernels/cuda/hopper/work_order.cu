// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <string>

#include "dependent_launch.cuh"
#include "hopper/kernel_params.h"
#include "hopper/work_order.h"
#include "kernels/cuda_resources.h"

namespace headscope::kernels::hopper {
namespace {

constexpr int kCostThreads = 256;
constexpr int kSortThreads = 1024;
constexpr int kBuckets = 1024;

// Costs in segments of 32 keys: what a row tile costs beside its keys (Q, O, pipeline fill), and a gathered tile of
// columns, which is slower than a copied one.
constexpr int kItemCost = 6;
constexpr int kColumnTileCost = 5;
constexpr int kColumnsPerTile = 128;

// So few keys that a list which holds them never counts as dense; twice as many are an int still.
constexpr int kFew = -(1 << 29);

// How many keys a run holds of those up to the rows' last position, where it holds no others and belongs to all rows;
// else so few that a list with it never counts as dense. `position`: of the list's first row.
__device__ int KeysOfDense(const KeyRun& run, int position, int last_position) {
  if ((run.Flags() & (kRunUpperHalf | kRunLowerHalf)) != 0) return kFew;
  if (!run.Partial()) return run.End() <= position + 1 ? run.Length() : kFew;
  return min(run.End(), last_position + 1) - run.start;
}

// One warp per item. Where find_dense, costs of items that keep everything a causal rule leaves to them are negated.
__global__ void __launch_bounds__(kCostThreads)
    CostKernel(SparseIndexView index, int items_per_head, int num_items, bool find_dense, int* costs) {
  cuda::LetNextKernelStart();
  const int item = (blockIdx.x * kCostThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (item >= num_items) return;
  const int lists_per_item = kItemRows / index.tile_rows;
  const int lists_per_head = (index.seq_q + index.tile_rows - 1) / index.tile_rows;
  const int tile = item % items_per_head * lists_per_item;
  const int64_t first_list = static_cast<int64_t>(item / items_per_head) * lists_per_head + tile;

  int cost = 0;
  bool dense = find_dense && index.rule.kind == MaskKind::kCausal;
  for (int l = 0; l < lists_per_item && tile + l < lists_per_head; ++l) {
    const KeyRun* const runs = index.runs + index.run_begin[first_list + l];
    const int run_count = index.run_count[first_list + l];
    const int position = index.first_position + (tile + l) * index.tile_rows;
    const int last_position = min(position + index.tile_rows, index.first_position + index.seq_q) - 1;
    int keys = 0;
    for (int i = lane; i < run_count; i += 32) {
      cost += (runs[i].Length() + kSegmentRows - 1) / kSegmentRows;
      if (dense) keys = max(keys + KeysOfDense(runs[i], position, last_position), kFew);
    }
    if (dense) {
      for (int offset = 16; offset > 0; offset /= 2) keys = max(keys + __shfl_xor_sync(~0u, keys, offset), kFew);
      dense = keys == last_position + 1;
    }
    if (lane == 0) {
      cost += (index.column_count[first_list + l] + kColumnsPerTile - 1) / kColumnsPerTile * kColumnTileCost;
    }
  }
  for (int offset = 16; offset > 0; offset /= 2) cost += __shfl_xor_sync(~0u, cost, offset);
  if (lane == 0) costs[item] = dense ? -(cost + kItemCost) : cost + kItemCost;
}

// One block per section: a counting sort of its items by rising or falling cost (work_order.h says which), in buckets
// of equal width up to the section's largest cost. Items of one bucket land in any order; each is computed alike
// wherever it stands, so results do not depend on it.
__global__ void __launch_bounds__(kSortThreads)
    OrderKernel(WorkOrderShape shape, const int* costs, int* order, int* next_item, int* dense_sections) {
  __shared__ int counts[kBuckets];
  __shared__ int max_cost;
  __shared__ int warp_totals[32];
  const int items_per_head = shape.items_per_head;
  const int first_head = blockIdx.x * shape.heads_per_section;
  const int section_heads = min(shape.heads_per_section, shape.num_heads - first_head);
  const int begin = first_head * items_per_head;
  const int size = section_heads * items_per_head;

  const bool longest_first = !shape.sections_fit_cache || blockIdx.x + 1 == gridDim.x;

  cuda::LetNextKernelStart();
  counts[threadIdx.x] = 0;
  if (threadIdx.x == 0) max_cost = 1;
  cuda::WaitForKernelBefore();
  if (blockIdx.x == 0 && threadIdx.x == 0) next_item[0] = next_item[1] = 0;
  __syncthreads();
  int local_max = 0;
  bool dense = true;
  for (int i = threadIdx.x; i < size; i += kSortThreads) {
    local_max = max(local_max, abs(costs[begin + i]));
    dense &= costs[begin + i] < 0;
  }
  atomicMax(&max_cost, local_max);
  dense = __syncthreads_and(dense) != 0;
  if (dense_sections != nullptr && threadIdx.x == 0) dense_sections[blockIdx.x] = dense;

  auto bucket_of = [&](int cost) {
    const int rising = static_cast<int>(static_cast<int64_t>(abs(cost)) * (kBuckets - 1) / max_cost);
    return longest_first ? kBuckets - 1 - rising : rising;
  };
  // Neighbours in the order share a row tile and differ in their head: the heads of a KV group then read the same keys
  // at the same time.
  auto item_at = [&](int i) { return begin + i % section_heads * items_per_head + i / section_heads; };
  for (int i = threadIdx.x; i < size; i += kSortThreads) atomicAdd(&counts[bucket_of(costs[item_at(i)])], 1);
  __syncthreads();

  // Exclusive prefix sum over the buckets, one per thread.
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int count = counts[threadIdx.x];
  int inclusive = count;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int below = __shfl_up_sync(~0u, inclusive, offset);
    if (lane >= offset) inclusive += below;
  }
  if (lane == 31) warp_totals[warp] = inclusive;
  __syncthreads();
  int before = 0;
  for (int w = 0; w < warp; ++w) before += warp_totals[w];
  counts[threadIdx.x] = before + inclusive - count;
  __syncthreads();

  for (int i = threadIdx.x; i < size; i += kSortThreads) {
    const int item = item_at(i);
    order[begin + atomicAdd(&counts[bucket_of(costs[item])], 1)] = item;
  }
}

}  // namespace

Status LaunchWorkOrder(const SparseIndexView& index, const WorkOrderShape& shape, int32_t* costs, int32_t* order,
                       int32_t* next_item, int32_t* dense_sections, cudaStream_t stream) {
  static_assert(kBuckets == kSortThreads, "the prefix sum gives one bucket to a thread");
  const int num_items = shape.items_per_head * shape.num_heads;
  constexpr int kItemsPerBlock = kCostThreads / 32;
  CostKernel<<<(num_items + kItemsPerBlock - 1) / kItemsPerBlock, kCostThreads, 0, stream>>>(
      index, shape.items_per_head, num_items, dense_sections != nullptr, costs);
  const std::string what = "ordering " + std::to_string(num_items) + " row tiles";
  if (Status status = CudaStatus(cudaGetLastError(), what); !status.ok()) return status;
  return CudaStatus(cuda::LaunchDependent(OrderKernel, static_cast<unsigned>(shape.NumSections()), kSortThreads, 0,
                                          stream, shape, costs, order, next_item, dense_sections),
                    what);
}

}  // namespace headscope::kernels::hopper
