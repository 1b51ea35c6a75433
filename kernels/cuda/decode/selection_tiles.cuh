// SPDX-License-Identifier: Apache-2.0
// A decode step over any selection on the tensor cores, 16-bit elements: dense decode's rings of tiles and equal shares
// (dense_kernels.cuh), with rows that a list names. A group of 8 query heads costs what one costs.
//
// A tile's 16 rows are looked up one tile ahead of their request, a row a lane. Blocks share all lists' steps as if
// each list were as long as the longest. What is shared goes through memory to a second kernel, which starts early and
// waits: nothing has to be zero beforehand.
#pragma once

#include <type_traits>

#include "async_copy.cuh"
#include "decode/decode_launch.cuh"
#include "decode/dense_merge.cuh"
#include "decode/selection_params.h"
#include "decode/tensor_core.cuh"
#include "dependent_launch.cuh"

namespace headscope::kernels::decode {

// How many pages from `begin` on lie wholly before the first token that the query sees: they are as if the list did not
// name them, and nobody reads their rows. *hidden: tokens of the first page that is left, if there is one, that lie
// before it.
__device__ __forceinline__ int SkipUnseen(const SelectionParams& p, int64_t begin, int* num_pages, int* hidden) {
  const int32_t* const pages = p.pages + begin;
  int low = 0, high = *num_pages;
  while (low < high) {
    const int middle = (low + high) / 2;
    if ((int64_t{pages[middle]} + 1) * p.page_size <= p.first_seen) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *num_pages -= low;
  *hidden = *num_pages > 0 ? max(p.first_seen - pages[low] * p.page_size, 0) : 0;
  return low;
}

// A pass of dense decode whose rows a list names.
template <typename T>
struct SelectedPass : DensePass<T> {
  const int32_t* pages;
  int64_t first_weight;  // the number of the list's first token in a row of weights
  int num_pages;
  int hidden;  // tokens of the first page, the window's oldest, that lie before it

  __device__ __forceinline__ SelectedPass(const SelectionParams& p, int pass) : DensePass<T>(p.tiles, pass) {
    const int list = Quotient(pass, p.tiles.by_passes_per_list);
    int64_t begin = int64_t{list} * p.pages_of_list;
    num_pages = p.pages_of_list;
    if (num_pages == 0) {
      begin = p.page_begin[list];
      num_pages = static_cast<int>(p.page_begin[list + 1] - begin);
    }
    hidden = 0;
    if (p.first_seen > 0) begin += SkipUnseen(p, begin, &num_pages, &hidden);
    pages = p.pages + begin;
    first_weight = begin * p.page_size;
  }
  __device__ __forceinline__ int Count(const SelectionParams& p) const {
    if (num_pages == 0) return 0;
    const int64_t last = int64_t{pages[num_pages - 1]} * p.page_size;
    return static_cast<int>((num_pages - 1) * int64_t{p.page_size} + min(int64_t{p.page_size}, p.x.seq_k - last));
  }
  // Whether a tile may have tokens from `number` on. Does not wait for the last page, as Count does.
  __device__ __forceinline__ bool MayHave(const SelectionParams& p, int number) const {
    return number < int64_t{num_pages} * p.page_size;
  }
  // The cache row of the list's token `number`; beyond the last token, and before the window, another's that is seen.
  __device__ __forceinline__ int Row(const SelectionParams& p, int number) const {
    if (p.page_size == 1) return pages[min(number, num_pages - 1)];
    const int page = Quotient(number, p.by_page);
    if (page >= num_pages) return max(pages[num_pages - 1] * p.page_size, p.first_seen);
    return max(min(pages[page] * p.page_size + (number - page * p.page_size), p.x.seq_k - 1), p.first_seen);
  }
};

// Four components of a query head: its softmax's numerators and their sum, and the mean-value term.
template <typename T, int D, typename Params>
__device__ __forceinline__ void StoreSelected(const Params& p, const DensePass<T>& pass, int column,
                                              const PartialSum& of_keys) {
  const int h = 4 * column / D, d = 4 * column % D, head = pass.head + h;
  const PartialSum all = WithSink(of_keys, p, head);
  const int64_t row = pass.query_head + h;
  T* const o = static_cast<T*>(p.x.o) + pass.sequence * p.x.o_batch + head * p.x.o_head + d;
  const float alpha = p.alpha != nullptr ? p.alpha[row] : 1.0f;
  const int64_t list = int64_t{pass.sequence} * p.x.num_kv_heads + head / p.x.group;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float value = all.sum == 0 ? 0.0f : all.v[i] / all.sum;
    if (p.alpha != nullptr) value = alpha * value + (1.0f - alpha) * p.mean[list * D + d + i];
    Store(o + i, value);
  }
  if (p.row_max != nullptr && d == 0) p.row_max[row] = LargestScore(of_keys.best, of_keys.sum);
  if (p.lse != nullptr && d == 0) p.lse[row] = all.sum == 0 ? kNegativeInfinity : all.best + logf(all.sum);
}

// Where a block leaves its part of a pass that it shares: one place for its first pass, one for its last.
struct SharedPart {
  float4* values;
  float2* softmax;

  __device__ __forceinline__ SharedPart(const SelectionParams& p, int block, bool last, int column) {
    const int64_t at = (int64_t{block} * 2 + (last ? 1 : 0)) * p.part_columns + column;
    values = reinterpret_cast<float4*>(p.part_o) + at;
    softmax = p.part_sum + at;
  }
};

// Params: SelectionParams where nothing but the scores weighs tokens; with sinks where the selection has weights, or
// the problem sinks or a window that hides tokens.
template <typename T, int D, typename Params>
__global__ void __launch_bounds__(kDenseWarps * 32, 1) SelectionTileKernel(const __grid_constant__ Params p) {
  constexpr bool kBiased = !std::is_same_v<Params, SelectionParams>;
  extern __shared__ __align__(128) char shared[];
  const DenseParams& tiles = p.tiles;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int step_tokens = tiles.warps * 16;
  const DenseShare share(tiles, static_cast<int>(blockIdx.x));
  const int begin = share.begin, end = share.end;
  T* const ring = reinterpret_cast<T*>(shared) + warp * tiles.stages * SharedTile<T, D>::kElements;
  const auto merged = reinterpret_cast<float(*)[D + 2]>(shared + static_cast<size_t>(tiles.warps * tiles.stages) *
                                                                     SharedTile<T, D>::kElements * sizeof(T));
  const uint64_t cache_policy = CachePolicy(tiles.leaves_cache_first != 0);
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();  // which may have made the lists

  DensePlace at{share.first_pass, begin - share.first_pass * tiles.steps}, ahead = at;
  int requested = begin, request_stage = 0;
  SelectedPass<T> source(p, at.pass);
  int next_row = 0;  // of the next tile's token lane % 16
  const auto look_up = [&] {
    const int first = ahead.step * step_tokens + warp * 16;
    if (requested < end && source.MayHave(p, first)) next_row = source.Row(p, first + lane % 16);
  };
  const auto request = [&] {
    const int first = ahead.step * step_tokens + warp * 16;
    if (requested < end && source.MayHave(p, first)) {
      SharedTile<T, D>{ring + request_stage * SharedTile<T, D>::kElements}.Request(
          source.k, p.x.k_row, source.v, p.x.v_row,
          [&](int token) { return int64_t{__shfl_sync(kAllLanes, next_row, token)}; }, cache_policy);
    }
    cuda::EndCopyGroup();
    if (++request_stage == tiles.stages) request_stage = 0;
    ++requested;
    const int pass = ahead.pass;
    ahead.Next(tiles);
    if (ahead.pass != pass && requested < end) source = SelectedPass<T>(p, ahead.pass);
    look_up();
  };
  look_up();
  for (int stage = 1; stage < tiles.stages; ++stage) request();

  WarpAttention<T, D, QueryFragment<T, D>> attention;
  int stage = 0, count = 0, hidden = 0;
  const float* weights = nullptr;
#pragma unroll 1
  for (int step = begin; step < end; ++step) {
    request();  // first: what a pass begins with takes a trip to memory
    if (step == begin || at.step == 0) {
      const SelectedPass<T> pass(p, at.pass);
      attention = {};
      attention.query.Load(static_cast<const T*>(p.x.q) + pass.sequence * p.x.q_batch + pass.head * p.x.q_head,
                           p.x.q_head, pass.heads);
      attention.out.Clear();
      count = pass.Count(p);
      if constexpr (kBiased) {
        hidden = pass.hidden;
        const int of_group = pass.head % p.x.group + min(lane / 4, pass.heads - 1);
        if (p.weights != nullptr) weights = p.weights + of_group * p.weight_stride + pass.first_weight;
      }
    }
    // All but the newest stages - 1 requests have arrived.
    if (tiles.stages == 3) {
      cuda::AwaitCopyGroups<2>();
    } else {
      cuda::AwaitCopyGroups<1>();
    }
    __syncwarp();
    const int first = at.step * step_tokens + warp * 16;
    if (first < count) {
      const SharedTile<T, D> tile{ring + stage * SharedTile<T, D>::kElements};
      if constexpr (kBiased) {
        attention.Step(tile, p.x.scale, p.soft_cap, count - first, [&](int token) {
          if (first + token < hidden) return kNegativeInfinity;
          return weights != nullptr ? logf(weights[first + token]) : 0.0f;
        });
      } else {
        attention.Step(tile, p.x.scale, p.soft_cap, count - first);
      }
    }
    __syncwarp();  // before the next request overwrites the tile
    if (++stage == tiles.stages) stage = 0;
    const int pass = at.pass;
    at.Next(tiles);
    if (at.pass != pass || step + 1 == end) {
      const DensePass<T> done(tiles, pass);
      attention.Finish(done.heads, merged + warp * done.heads);
      __syncthreads();
      const int columns = done.heads * D / 4;
      const bool whole = share.HasWhole(tiles, pass);
#pragma unroll 1
      for (int column = static_cast<int>(threadIdx.x); column < columns; column += static_cast<int>(blockDim.x)) {
        const PartialSum all = SumOfWarps<D>(merged, tiles.warps, done.heads, column);
        if (whole) {
          StoreSelected<T, D>(p, done, column, all);
        } else {
          const SharedPart part(p, static_cast<int>(blockIdx.x), pass != share.first_pass, column);
          *part.values = make_float4(all.v[0], all.v[1], all.v[2], all.v[3]);
          *part.softmax = make_float2(all.best, all.sum);
        }
      }
      __syncthreads();  // before the next part's results overwrite these
    }
  }
}

// A slice of a pass's columns a block, and of a column neighbouring lanes one part each, so that all parts are read in
// one trip to memory.
constexpr int kMergeThreads = 256, kMergeColumns = 8;
template <typename T, int D, typename Params>
__global__ void __launch_bounds__(kMergeThreads) SelectionTileMerge(const __grid_constant__ Params p) {
  const DenseParams& tiles = p.tiles;
  int number = static_cast<int>(blockIdx.x);
  bool shared = true;
  if (tiles.blocks_per_pass == 0) {  // of the passes that blocks share, one for each first border within it
    const int border = DenseShare::BeginOf(tiles, number + 1), before = DenseShare::BeginOf(tiles, number);
    number = Quotient(border, tiles.by_steps);
    shared = border > number * tiles.steps && before <= number * tiles.steps;
  }
  const DensePass<T> pass(tiles, number);
  const int begin = number * tiles.steps;
  const int first = DenseShare::BlockOf(tiles, begin);
  const int parts = DenseShare::BlockOf(tiles, begin + tiles.steps - 1) + 1 - first;
  cuda::WaitForKernelBefore();
  if (!shared || parts == 1) return;  // its block has stored it
  const int slice = static_cast<int>(blockIdx.y) * kMergeColumns;
  const int slice_end = min(slice + kMergeColumns, pass.heads * D / 4);
  const MergeLanes lanes(parts);
#pragma unroll 1
  for (int base = slice; base < slice_end; base += lanes.groups) {
    const int column = base + lanes.group;
    PartialSum all;
#pragma unroll 4
    for (int part = lanes.part; column < slice_end && part < parts; part += lanes.width) {
      // The pass is the first of all who share it, but of one whose share begins before it.
      const int block = first + part;
      const SharedPart from(p, block, DenseShare::BeginOf(tiles, block) < begin, column);
      const float4 v = *from.values;
      const float2 softmax = *from.softmax;
      all.Add({{v.x, v.y, v.z, v.w}, softmax.x, softmax.y});
    }
    __syncwarp();
    all.AddLanes(lanes.width);
    if (lanes.part == 0 && column < slice_end) StoreSelected<T, D>(p, pass, column, all);
  }
}

template <typename T, int D, typename Params>
cudaError_t LaunchSelectionTilesOf(const Params& p, cudaStream_t stream) {
  const auto kernel = SelectionTileKernel<T, D, Params>;
  if (const cudaError_t error = AllowSharedMemory(kernel); error != cudaSuccess) return error;
  const DenseParams& tiles = p.tiles;
  const auto blocks = static_cast<unsigned>(tiles.blocks);
  const auto shared_bytes = static_cast<size_t>(tiles.shared_bytes);
  const int threads = tiles.warps * 32;
  cudaError_t error = cudaSuccess;
  if (p.chained) {
    error = cuda::LaunchDependent(kernel, blocks, threads, shared_bytes, stream, p);
  } else {
    kernel<<<blocks, static_cast<unsigned>(threads), shared_bytes, stream>>>(p);
    error = cudaGetLastError();
  }
  const bool any_shared = tiles.steps > 1 && (tiles.longer != 0 || tiles.share % tiles.steps != 0);
  if (error != cudaSuccess || !any_shared) return error;
  const int slices = (tiles.heads_per_pass * D / 4 + kMergeColumns - 1) / kMergeColumns;
  const int most_shared = tiles.blocks_per_pass > 0 ? tiles.passes : tiles.blocks - 1;
  const dim3 grid(static_cast<unsigned>(most_shared), static_cast<unsigned>(slices));
  return cuda::LaunchDependent(SelectionTileMerge<T, D, Params>, grid, kMergeThreads, 0, stream, p);
}

template <typename T, int D>
cudaError_t LaunchSelectionTiles(const WithSinks<SelectionParams>& p, cudaStream_t stream) {
  const SelectionParams& without = p;
  if (p.weights != nullptr || p.first_seen > 0 || p.sinks.count > 0) return LaunchSelectionTilesOf<T, D>(p, stream);
  return LaunchSelectionTilesOf<T, D>(without, stream);
}

}  // namespace headscope::kernels::decode
