// SPDX-License-Identifier: Apache-2.0
// Copies of 16-bit keys and values: segments by TMA boxes, single columns row by row.
#pragma once

#include <cute/arch/copy_sm90_tma.hpp>

#include "hopper/loader.cuh"

namespace headscope::kernels::hopper {

// Has the descriptors of a kernel's tensors fetched. By one thread.
__device__ inline void FetchDescriptors(const KernelParams& p) {
  for (const CUtensorMap* map : {&p.q, &p.k_boxes[kWholeTile], &p.v_boxes[kWholeTile], &p.o}) {
    cute::prefetch_tma_descriptor(map);
  }
}

// How many elements a head's key `column` lies behind the head's first in the tensor (packed_place.cuh has the other).
__device__ inline int64_t OffsetOf(const KernelParams& p, const GatherSource& source, int sequence, int column) {
  return sequence * source.batch_stride +
         min(static_cast<uint32_t>(column), static_cast<uint32_t>(p.index.seq_k - 1)) * source.row_stride;
}

// What a Loader copies by.
template <class T>
class TensorCopies {
 public:
  __device__ TensorCopies(const typename T::Params& params, SharedStorage<T>&, int warp, int lane)
      : p_(params), warp_(warp), lane_(lane) {}

  __device__ void CopyKeys(const StepSource<T>& source, char* stage, uint64_t* full) const {
    Copy<T::kQuerySlabs>(p_.k_boxes, stage, full, source);
  }
  __device__ void CopyValues(const StepSource<T>& source, char* stage, uint64_t* full) const {
    Copy<T::kValueSlabs>(p_.v_boxes, stage, full, source);
  }

  __device__ void GatherKeys(const StepSource<T>& source, char* stage, uint64_t* full) const {
    GatherRows<T::kHeadDim>(p_.k_gather, p_.head_dim, stage, source);
    cutlass::arch::cpasync_barrier_arrive_noinc(full);
  }
  __device__ void GatherValues(const StepSource<T>& source, char* stage, uint64_t* full) const {
    GatherRows<T::kValueDim>(p_.v_gather, p_.value_dim, stage, source);
    cutlass::arch::cpasync_barrier_arrive_noinc(full);
  }

  __device__ void ZeroUnread(const StepSource<T>& source, char* stage) const {
    constexpr int kPieces = T::kValueDim / 8;  // of 16 bytes, in a row
    static_assert((kLoaderWarps - 1) * 32 % kPieces == 0);
    constexpr int kRowsAtOnce = (kLoaderWarps - 1) * 32 / kPieces;
    constexpr uint32_t kEvery = 0xffffffffu / ((1u << kRowsAtOnce) - 1u);  // rows 0, kRowsAtOnce, ...
    const int worker = (warp_ - 1) * 32 + lane_;
    const int piece = worker % kPieces;
    char* const column = stage + piece / 8 * T::kTileColumns * kSlabBytes + piece % 8 * 16;
    CUTE_UNROLL
    for (int i = 0; i < T::kSegments; ++i) {
      for (uint32_t rows = source.unread[i] & kEvery << worker / kPieces; rows != 0; rows &= rows - 1) {
        const int row = i * kSegmentRows + __ffs(static_cast<int>(rows)) - 1;
        *reinterpret_cast<uint4*>(column + row * kSlabBytes) = uint4{};
      }
    }
  }

 private:
  using Element = typename T::Element;

  // Issues a step's boxes, as one arrival at `full`. kSlabs: of K or V.
  template <int kSlabs>
  __device__ void Copy(const CUtensorMap (&boxes)[kBoxKinds], char* stage, uint64_t* full,
                       const StepSource<T>& step) const {
    Mbarrier::arrive_and_expect_tx(full, kSlabs * T::kTileColumns * kSlabBytes);
    if (!T::kReadsLists || (step.flags & kStepWhole) != 0) {
      CopySegments<kSlabs, T::kSegments>(boxes[kWholeTile], stage, full, step);
    } else if ((step.flags & kStepPairs) != 0) {
      CopySegments<kSlabs, 2>(boxes[kTwoSegments], stage, full, step);
    } else {
      CopySegments<kSlabs, 1>(boxes[kOneSegment], stage, full, step);
    }
  }

  // Boxes of kPerBox segments.
  template <int kSlabs, int kPerBox>
  __device__ void CopySegments(const CUtensorMap& map, char* stage, uint64_t* full, const StepSource<T>& step) const {
    CUTE_UNROLL
    for (int i = 0; i < T::kSegments; i += kPerBox) {
      CUTE_UNROLL
      for (int slab = 0; slab < kSlabs; ++slab) {
        cute::SM90_TMA_LOAD_4D::copy(&map, full, static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_LAST),
                                     stage + (slab * T::kTileColumns + i * kSegmentRows) * kSlabBytes, slab * 64,
                                     step.start[i], step.kv_head, step.sequence);
      }
    }
  }

  // Each 16-byte piece of a row goes to its place under the 128-byte swizzle. Rows behind the last column are zeros.
  // kDim: of the rows in shared memory, of which memory holds `stored` components.
  //
  // A copy must cost few instructions, since three warps issue 4096 of them for a step of 128 columns. So the warps
  // take groups of 8 rows in turn, the period of the swizzle, which makes all places constants, and a lane finds out
  // for one or two rows where they are and hands that to the lanes that copy.
  template <int kDim>
  __device__ void GatherRows(const GatherSource& source, int stored, char* stage, const StepSource<T>& step) const {
    // 16-byte pieces of a row that go at once: all of them where their number divides a warp, else those of one slab.
    constexpr int kPieces = 32 % (kDim / 8) == 0 ? kDim / 8 : 8;
    constexpr int kRowsAtOnce = 32 / kPieces;
    constexpr int kGroupRows = 8;
    constexpr int kGroups = T::kTileColumns / kGroupRows;
    constexpr int kOwnGroups = (kGroups + kLoaderWarps - 1) / kLoaderWarps;
    const int32_t* const columns = p_.index.columns + step.columns;
    constexpr int kRowsPerLane = (kOwnGroups * kGroupRows + 31) / 32;
    static_assert(kRowsPerLane <= 2);
    int64_t own[kRowsPerLane];  // bytes to this lane's rows of the warp's: lane_ and lane_ + 32
    CUTE_UNROLL
    for (int i = 0; i < kRowsPerLane; ++i) {
      const int row = RowOf(lane_ / kGroupRows + i * (32 / kGroupRows), lane_ % kGroupRows);
      const int column = row < step.num_columns ? columns[row] : 0;
      own[i] = OffsetOf(p_, source, step.sequence, column) * 2;
    }
    const int piece = lane_ % kPieces;
    const int row_at_once = lane_ / kPieces;
    const char* const head = reinterpret_cast<const char*>(static_cast<const Element*>(source.data) +
                                                           step.kv_head * source.head_stride + piece * 8);
    const uint32_t slab =
        cute::cast_smem_ptr_to_uint(stage) + static_cast<uint32_t>(piece / 8 * T::kTileColumns * kSlabBytes);
    CUTE_NO_UNROLL
    for (int group = 0; group < kOwnGroups && RowOf(group, 0) < T::kTileColumns; ++group) {
      const int64_t group_own = group * kGroupRows < 32 ? own[0] : own[kRowsPerLane - 1];
      CUTE_UNROLL
      for (int first = 0; first < kGroupRows; first += kRowsAtOnce) {
        const int group_row = first + row_at_once;
        const int64_t begin = __shfl_sync(kAllLanes, group_own, group * kGroupRows % 32 + group_row);
        const int row = RowOf(group, group_row);
        const uint32_t to = slab + static_cast<uint32_t>(row * kSlabBytes + ((piece % 8 ^ group_row) << 4));
        CUTE_UNROLL
        for (int component = 0; component < kDim; component += kPieces * 8) {
          const bool present = component + piece * 8 < stored && row < step.num_columns;
          asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(
                           to + static_cast<uint32_t>(component / 64 * T::kTileColumns * kSlabBytes)),
                       "l"(head + begin + component * 2), "r"(present ? 16 : 0)
                       : "memory");
        }
      }
    }
  }

  // Row `group_row` of the group-th group of 8 rows that this warp gathers.
  __device__ int RowOf(int group, int group_row) const { return (group * kLoaderWarps + warp_) * 8 + group_row; }

  const typename T::Params& p_;
  const int warp_;
  const int lane_;
};

}  // namespace headscope::kernels::hopper
