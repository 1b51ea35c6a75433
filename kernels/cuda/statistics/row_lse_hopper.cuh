// SPDX-License-Identifier: Apache-2.0
// Row LSE with wgmma. A persistent block per multiprocessor takes work items of 64 query rows per consumer warpgroup;
// one warp brings tiles of keys through a ring of TMA stages, another the queries. A warpgroup multiplies a tile and
// then takes its sums, so the products of some warpgroups run beside the exponentials of the others.
//
// What is kept of a row is a reference and the sum of exp2(score - reference). Any reference will do that lies neither
// far below the row's maximum, where the sum would overflow, nor far above. So the maximum is looked for where a row
// begins, in masked tiles, and where a sum shows that scores have outgrown the reference; every other tile costs a
// multiply-add, an exponential and an addition a pair.
//
// Work comes in sections of heads, longest items first, dealt out forwards and backwards in turn: that evens out the
// blocks' shares without a queue, which would need memory.
#pragma once

#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>

#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <utility>

#include "statistics/row_lse_hopper.h"
#include "statistics/score_tile.cuh"
#include "statistics/sink_term.cuh"
#include "statistics/wgmma.cuh"

namespace headscope::kernels::statistics {

using Mbarrier = cutlass::arch::ClusterTransactionBarrier;

template <bool kBFloat16_, int kHeadDim_, int kGroups_, int kStages_>
struct RowLseTraits {
  static constexpr bool kBFloat16 = kBFloat16_;
  static constexpr int kHeadDim = kHeadDim_;
  static constexpr int kGroups = kGroups_;
  static constexpr int kTileKeys = kLseTileKeys;
  static constexpr uint32_t kStages = kStages_;
  static constexpr int kSlabs = kHeadDim / kSlabComponents;
  static constexpr int kItemRows = kGroups * kGroupRows;
  static constexpr int kThreads = 128 * (1 + kGroups);
  static constexpr int kQueryBytes = kGroupRows * kHeadDim * 2;  // of one warpgroup
  static constexpr int kStageBytes = kTileKeys * kHeadDim * 2;
  // Registers come in eights. What the producers give back goes to the consumers.
  static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
  static constexpr int kProducerRegisters = 32;
  static constexpr int kConsumerRegisters = (kLaunchRegisters * (1 + kGroups) - kProducerRegisters) / kGroups / 8 * 8;
};

template <class T>
struct RowLseShared {
  alignas(kSwizzleBytes) char q[T::kGroups][T::kQueryBytes];
  alignas(kSwizzleBytes) char k[T::kStages][T::kStageBytes];
  alignas(8) uint64_t q_full[T::kGroups];
  alignas(8) uint64_t q_empty[T::kGroups];
  alignas(8) uint64_t k_full[T::kStages];
  alignas(8) uint64_t k_empty[T::kStages];
};

// The items of one block, in order; every warp of the block walks them by itself.
class LseItems {
 public:
  __device__ explicit LseItems(const RowLseParams& params) : p_(params) {}

  // False when there is none left.
  __device__ bool Next(int* sequence_head, int* row_item) {
    const int heads = p_.scores.num_sequence_heads;
    while (section_ < heads) {
      const int section_heads = min(p_.heads_per_section, heads - section_);
      const auto turn = static_cast<int>(round_ % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x);
      const int64_t item = static_cast<int64_t>(round_) * gridDim.x + turn;
      if (item < static_cast<int64_t>(section_heads) * p_.items_per_head) {
        ++round_;
        *sequence_head = section_ + static_cast<int>(item % section_heads);
        *row_item = p_.items_per_head - 1 - static_cast<int>(item / section_heads);
        return true;
      }
      section_ += section_heads;
      round_ = 0;
    }
    return false;
  }

 private:
  const RowLseParams& p_;
  int section_ = 0;  // its first head
  int round_ = 0;
};

// The tiles that an item's rows attend to: [begin, end), walked from the last to the first.
struct LseTiles {
  int begin, end;

  template <class T>
  __device__ static LseTiles Make(const ScoreParams& params, int row_item, T) {
    const int64_t first_row = static_cast<int64_t>(row_item) * T::kItemRows;
    const AttendedColumns columns(params, first_row, min(first_row + T::kItemRows, int64_t{params.seq_q}));
    const int begin = columns.begin / T::kTileKeys;
    return {begin, columns.end > columns.begin ? (columns.end + T::kTileKeys - 1) / T::kTileKeys : begin};
  }
};

template <class T>
__device__ void LoadLseKeys(const RowLseParams& p, RowLseShared<T>& s) {
  LseItems items(p);
  uint32_t number = 0;  // tiles brought so far
  int sequence_head, row_item;
  while (items.Next(&sequence_head, &row_item)) {
    const LseTiles tiles = LseTiles::Make(p.scores, row_item, T{});
    const int kv_head = sequence_head % p.scores.num_qo_heads / p.scores.group_size;
    for (int tile = tiles.end - 1; tile >= tiles.begin; --tile, ++number) {
      Mbarrier::wait(&s.k_empty[number % T::kStages], (number / T::kStages & 1u) ^ 1u);
      uint64_t* const full = &s.k_full[number % T::kStages];
      Mbarrier::arrive_and_expect_tx(full, T::kStageBytes);
#pragma unroll
      for (int slab = 0; slab < T::kSlabs; ++slab) {
        cute::SM90_TMA_LOAD_4D::copy(&p.k, full, static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_LAST),
                                     s.k[number % T::kStages] + slab * T::kTileKeys * kSlabRowBytes,
                                     slab * kSlabComponents, tile * T::kTileKeys, kv_head,
                                     sequence_head / p.scores.num_qo_heads);
      }
    }
  }
}

template <class T>
__device__ void LoadLseQueries(const RowLseParams& p, RowLseShared<T>& s) {
  LseItems items(p);
  int sequence_head, row_item;
  for (uint32_t number = 0; items.Next(&sequence_head, &row_item); ++number) {
    for (int group = 0; group < T::kGroups; ++group) {
      Mbarrier::wait(&s.q_empty[group], (number & 1u) ^ 1u);
      Mbarrier::arrive_and_expect_tx(&s.q_full[group], T::kQueryBytes);
#pragma unroll
      for (int slab = 0; slab < T::kSlabs; ++slab) {
        cute::SM90_TMA_LOAD_4D::copy(&p.q, &s.q_full[group],
                                     static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST),
                                     s.q[group] + slab * kGroupRows * kSlabRowBytes, slab * kSlabComponents,
                                     row_item * T::kItemRows + group * kGroupRows,
                                     sequence_head % p.scores.num_qo_heads, sequence_head / p.scores.num_qo_heads);
      }
    }
  }
}

// Two rows of a consumer thread, its quarter of the columns. Base 2.
struct LseState {
  float reference[2] = {-INFINITY, -INFINITY};  // -inf: nothing attended yet
  float sum[2] = {0.0f, 0.0f};

  // Adds a tile. False, and nothing is added, where some lane's tile sums to more than 2^20: a score then lies at most
  // 20 above its reference, whose rounding in the exponent is worth 7e-7 of the sum. factor: of the scores.
  template <int kCount>
  __device__ __forceinline__ bool Add(const float (&scores)[kCount], float factor) {
    float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      part[i % 4] += Exp2(fmaf(scores[i], factor, -reference[i / 2 % 2]));
    }
    constexpr float kMost = 1048576.0f;
    const float tile_sum[2] = {part[0] + part[1], part[2] + part[3]};
    // Without a reference the sum is infinite or no number, which fails as well.
    if (!__all_sync(~0u, tile_sum[0] < kMost && tile_sum[1] < kMost)) return false;
    sum[0] += tile_sum[0];
    sum[1] += tile_sum[1];
    return true;
  }

  // The same for any scores; the reference becomes the maximum of all so far.
  template <int kCount>
  __device__ __forceinline__ void AddRaising(const float (&scores)[kCount], float factor) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = scores[2 * r];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (i / 2 % 2 == r) largest = fmaxf(largest, scores[i]);
      }
      const float raised = fmaxf(reference[r], largest * factor);
      // Nothing attended so far: -inf - -inf is no number.
      const float shift = raised == -INFINITY ? 0.0f : raised;
      float part[2] = {0.0f, 0.0f};
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (i / 2 % 2 == r) part[i % 2] += Exp2(fmaf(scores[i], factor, -shift));
      }
      sum[r] = sum[r] * Exp2(reference[r] - shift) + (part[0] + part[1]);
      reference[r] = raised;
    }
  }
};

template <class T>
class LseConsumer {
 public:
  __device__ LseConsumer(const RowLseParams& params, RowLseShared<T>& shared, int group)
      : p_(params.scores),
        sinks_(params.sinks),
        lse_(params.lse),
        s_(shared),
        group_(group),
        lane_(static_cast<int>(threadIdx.x) % 32),
        row_(static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane_ / 4) {}

  __device__ void Run(const RowLseParams& params) {
    static_assert(kGroupRows == 64 && T::kTileKeys == 128);
    float scores[T::kTileKeys / 2];
    const uint64_t queries = DescribeOperand(SharedAddress(s_.q[group_]));
    const uint64_t keys = DescribeOperand(SharedAddress(s_.k));
    const float factor = p_.cap > 0 ? 1.0f : p_.factor;

    LseItems items(params);
    uint32_t number = 0;  // tiles so far, over all items
    int sequence_head, row_item;
    for (uint32_t item = 0; items.Next(&sequence_head, &row_item); ++item) {
      const LseTiles tiles = LseTiles::Make(p_, row_item, T{});
      const int64_t first_row = static_cast<int64_t>(row_item) * T::kItemRows + group_ * kGroupRows;
      const int64_t end_row = min(first_row + kGroupRows, int64_t{p_.seq_q});
      AttendedColumns columns(p_, first_row, end_row);
      if (first_row >= end_row) columns.end = columns.begin = 0;
      LseState state;
      Mbarrier::wait(&s_.q_full[group_], item & 1u);
      for (int tile = tiles.end - 1; tile >= tiles.begin; --tile, ++number) {
        const int begin = tile * T::kTileKeys;
        const bool attended = begin < columns.end && begin + T::kTileKeys > columns.begin;
        // Also where the tile is not this warpgroup's: a stage is let go after it has been filled.
        const uint32_t stage = number % T::kStages;
        Mbarrier::wait(&s_.k_full[stage], number / T::kStages & 1u);
        __syncwarp();  // lanes that poll may see it pass at different times, and wgmma takes whole warps
        if (attended) {
          FenceAccumulators(scores);
          BeginProducts();
          [&]<int... kStep>(std::integer_sequence<int, kStep...>) {
            (Multiply64x128<T::kBFloat16, kStep>(scores, queries, keys + stage * (T::kStageBytes / 16)), ...);
          }
          (std::make_integer_sequence<int, T::kHeadDim / 16>{});
          CommitProducts();
          WaitForProducts();
          FenceAccumulators(scores);
        }
        Release(s_.k_empty[stage]);
        if (!attended) continue;
        if (p_.cap > 0) Cap(scores);
        const bool whole = columns.Whole(begin, begin + T::kTileKeys);
        if (!whole) Mask(scores, first_row, end_row, begin);
        if (!whole || !state.Add(scores, factor)) state.AddRaising(scores, factor);
      }
      Release(s_.q_empty[group_]);
      Finish(state, sequence_head, first_row, end_row);
    }
  }

 private:
  __device__ void Release(uint64_t& empty) {
    __syncwarp();
    if (lane_ == 0) Mbarrier::arrive(&empty);
  }

  template <int kCount>
  __device__ __forceinline__ void Cap(float (&scores)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) scores[i] = p_.cap * Tanh(p_.factor * scores[i]);
  }

  // Pairs that a row does not attend to become -inf.
  template <int kCount>
  __device__ __forceinline__ void Mask(float (&scores)[kCount], int64_t first_row, int64_t end_row,
                                       int column_begin) const {
    RowColumns kept[2] = {{p_, static_cast<int>(first_row) + row_, column_begin},
                          {p_, static_cast<int>(first_row) + row_ + 8, column_begin}};
    for (int r = 0; r < 2; ++r) {
      // Counted from the thread's first column.
      kept[r].begin -= lane_ % 4 * 2;
      kept[r].end = first_row + row_ + 8 * r < end_row ? kept[r].end - lane_ % 4 * 2 : kept[r].begin;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (!kept[i / 2 % 2].Attends(i / 4 * 8 + i % 2)) scores[i] = -INFINITY;
    }
  }

  // The four lanes of a row bring theirs together.
  __device__ void Finish(const LseState& state, int sequence_head, int64_t first_row, int64_t end_row) {
    const int64_t row_slot = static_cast<int64_t>(sequence_head) * p_.seq_q;
    for (int r = 0; r < 2; ++r) {
      const float reference = QuadMax(state.reference[r]);
      const float shift = reference == -INFINITY ? 0.0f : reference;
      const float sum = QuadSum(state.sum[r] * Exp2(state.reference[r] - shift));
      const int64_t row = first_row + row_ + 8 * r;
      if (lane_ % 4 == 0 && row < end_row) {
        constexpr float kLn2 = 0.693147180559945309f;
        // A sum of 0 is a row that attends to nothing; NaN among its scores is a sum of NaN.
        lse_[row_slot + row] =
            WithSink(sum == 0.0f ? -INFINITY : reference * kLn2 + logf(sum), sinks_, sequence_head % p_.num_qo_heads);
      }
    }
  }

  const ScoreParams& p_;
  const HeadSinks& sinks_;
  float* const lse_;
  RowLseShared<T>& s_;
  const int group_;
  const int lane_;
  const int row_;  // the thread's first row in its warpgroup's
};

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1) RowLseHopperKernel(const __grid_constant__ RowLseParams params) {
  extern __shared__ char raw[];
  // The swizzle's pattern counts from multiples of 1024 bytes.
  RowLseShared<T>& shared = *reinterpret_cast<RowLseShared<T>*>(raw + (-SharedAddress(raw) & (kSwizzleBytes - 1u)));
  if (threadIdx.x == 0) {
    for (int i = 0; i < T::kGroups; ++i) {
      Mbarrier::init(&shared.q_full[i], 1);
      Mbarrier::init(&shared.q_empty[i], 4);  // lane 0 of each warp
    }
    for (uint32_t i = 0; i < T::kStages; ++i) {
      Mbarrier::init(&shared.k_full[i], 1);
      Mbarrier::init(&shared.k_empty[i], 4 * T::kGroups);
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();
  const int warpgroup = cutlass::canonical_warp_group_idx();
  if (warpgroup == 0) {
    cutlass::arch::warpgroup_reg_dealloc<T::kProducerRegisters>();
    const int warp = cutlass::canonical_warp_idx_sync();
    if (warp == 0 && cute::elect_one_sync()) LoadLseKeys<T>(params, shared);
    if (warp == 1 && cute::elect_one_sync()) LoadLseQueries<T>(params, shared);
  } else {
    cutlass::arch::warpgroup_reg_alloc<T::kConsumerRegisters>();
    LseConsumer<T>(params, shared, warpgroup - 1).Run(params);
  }
}

template <class T>
cudaError_t LaunchRowLse(RowLseParams params, int num_multiprocessors, cudaStream_t stream) {
  constexpr int kSharedBytes = sizeof(RowLseShared<T>) + kSwizzleBytes;
  static_assert(kSharedBytes <= 227 * 1024);
  const cudaError_t error =
      cudaFuncSetAttribute(RowLseHopperKernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  params.items_per_head = (params.scores.seq_q + T::kItemRows - 1) / T::kItemRows;
  // Few heads at a time keep K in the L2 cache; 16 items a block even the blocks' shares out.
  params.heads_per_section = (16 * num_multiprocessors + params.items_per_head - 1) / params.items_per_head;
  const int64_t num_items = static_cast<int64_t>(params.items_per_head) * params.scores.num_sequence_heads;
  const auto num_blocks = static_cast<unsigned>(num_items < num_multiprocessors ? num_items : num_multiprocessors);
  RowLseHopperKernel<T><<<num_blocks, T::kThreads, kSharedBytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::statistics
