// The loader warps: bring the keys and values that steps name. Runs come by TMA, issued by one thread; single columns
// are gathered by all three warps with 16-byte cp.async, into the same stages and under the same barriers, so that the
// consumers see little difference.
#pragma once

#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

template <class T>
class Loader {
 public:
  using Element = typename T::Element;

  // `warp`: 0 to kLoaderWarps - 1.
  __device__ Loader(const KernelParams& params, SharedStorage<T>& shared, int warp)
      : p_(params), s_(shared), warp_(warp), lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run() {
    // Keys go one step ahead of values: their stage is free half a step earlier, and they are needed first. Only an
    // item's last values do not wait for the step behind them, which may not be known before the item is done. Every
    // warp waits for every stage, whether it has something to bring or not, so that none falls two uses of a stage
    // behind.
    Step before{.flags = kStepLast};
    for (uint32_t number = 0;; ++number) {
      const Step step = Read(number);
      if ((step.flags & kStepEnd) != 0) return;
      LoadKeys(number, step);
      if ((before.flags & kStepLast) == 0) LoadValues(number - 1, before);
      if ((step.flags & kStepLast) != 0) LoadValues(number, step);
      before = step;
    }
  }

 private:
  __device__ void LoadKeys(uint32_t number, const Step& step) {
    Load(p_.k_gather, p_.k_boxes, s_.k, s_.k_empty, s_.k_full, number, step);
  }
  __device__ void LoadValues(uint32_t number, const Step& step) {
    Load(p_.v_gather, p_.v_boxes, s_.v, s_.v_empty, s_.v_full, number, step);
  }

  __device__ Step Read(uint32_t number) {
    WaitFull(s_.step_full, number);
    Step step{};
    if (lane_ == 0) {
      step = s_.steps[number % kStepRing];
      Mbarrier::arrive(&s_.step_empty[number % kStepRing]);
    }
    for (int i = 0; i < T::kSegments; ++i) {
      step.segments[i].start = __shfl_sync(kAllLanes, step.segments[i].start, 0);
      step.segments[i].packed = __shfl_sync(kAllLanes, step.segments[i].packed, 0);
    }
    step.columns = __shfl_sync(kAllLanes, step.columns, 0);
    step.kv_head = __shfl_sync(kAllLanes, step.kv_head, 0);
    step.sequence = __shfl_sync(kAllLanes, step.sequence, 0);
    step.flags = __shfl_sync(kAllLanes, step.flags, 0);
    return step;
  }

  __device__ void Load(const GatherSource& gather, const CUtensorMap (&boxes)[kBoxKinds],
                       char (&stages)[kStages][T::kStageBytes], uint64_t (&empty)[kStages], uint64_t (&full)[kStages],
                       uint32_t number, const Step& step) {
    WaitEmpty(empty, number);
    __syncwarp();
    char* const stage = stages[number % kStages];
    uint64_t* const barrier = &full[number % kStages];
    if ((step.flags & kStepGathered) != 0) {
      GatherRows(gather, stage, step);
      cutlass::arch::cpasync_barrier_arrive_noinc(barrier);
    } else if (warp_ == 0) {
      if (cute::elect_one_sync()) Copy(boxes, stage, barrier, step);
      __syncwarp();
    }
  }

  __device__ void Copy(const CUtensorMap (&boxes)[kBoxKinds], char* stage, uint64_t* full, const Step& step) {
    Mbarrier::arrive_and_expect_tx(full, T::kStageBytes);
    ArriveMany(full, kFullArrivals - 1);
    if ((step.flags & kStepWhole) != 0) {
      CopySegments<T::kSegments>(boxes[kWholeTile], stage, full, step);
    } else if ((step.flags & kStepPairs) != 0) {
      CopySegments<2>(boxes[kTwoSegments], stage, full, step);
    } else {
      CopySegments<1>(boxes[kOneSegment], stage, full, step);
    }
  }

  // Boxes of kPerBox segments.
  template <int kPerBox>
  __device__ void CopySegments(const CUtensorMap& map, char* stage, uint64_t* full, const Step& step) {
    CUTE_UNROLL
    for (int i = 0; i < T::kSegments; i += kPerBox) {
      CUTE_UNROLL
      for (int slab = 0; slab < T::kSlabs; ++slab) {
        cute::SM90_TMA_LOAD_4D::copy(&map, full, static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_LAST),
                                     stage + (slab * T::kTileColumns + i * kSegmentRows) * kSlabBytes, slab * 64,
                                     step.segments[i].start, step.kv_head, step.sequence);
      }
    }
  }

  // Each 16-byte piece of a row goes to its place under the 128-byte swizzle. Rows behind the last column are zeros.
  __device__ void GatherRows(const GatherSource& source, char* stage, const Step& step) const {
    constexpr int kPieces = T::kHeadDim / 8;  // 16-byte pieces of a row
    constexpr int kRowsAtOnce = 32 / kPieces;
    constexpr int kRowStride = kLoaderWarps * kRowsAtOnce;
    constexpr int kBatch = 8;  // column numbers in flight
    const Element* const tensor = static_cast<const Element*>(source.data) + step.sequence * source.batch_stride +
                                  step.kv_head * source.head_stride;
    const int32_t* const columns = p_.index.columns + step.columns;
    int count = 0;
    for (int i = 0; i < T::kSegments; ++i) count += step.segments[i].Length();
    const int piece = lane_ % kPieces;
    const uint32_t slab =
        cute::cast_smem_ptr_to_uint(stage) + static_cast<uint32_t>(piece / 8 * T::kTileColumns * kSlabBytes);
    const bool in_head = piece * 8 < p_.head_dim;
    for (int first = warp_ * kRowsAtOnce + lane_ / kPieces; first < T::kTileColumns; first += kBatch * kRowStride) {
      int column[kBatch];
      CUTE_UNROLL
      for (int i = 0; i < kBatch; ++i) {
        const int row = first + i * kRowStride;
        column[i] = row < count ? columns[row] : -1;
      }
      CUTE_UNROLL
      for (int i = 0; i < kBatch; ++i) {
        const int row = first + i * kRowStride;
        const bool present = in_head && static_cast<uint32_t>(column[i]) < static_cast<uint32_t>(p_.index.seq_k);
        const Element* const from = present ? tensor + column[i] * source.row_stride + piece * 8 : tensor;
        const uint32_t to = slab + static_cast<uint32_t>(row * kSlabBytes + ((piece % 8 ^ row % 8) << 4));
        if (row < T::kTileColumns) {
          asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                       "r"(present ? 16 : 0)
                       : "memory");
        }
      }
    }
  }

  const KernelParams& p_;
  SharedStorage<T>& s_;
  const int warp_;
  const int lane_;
};

}  // namespace headscope::kernels::hopper
