// SPDX-License-Identifier: Apache-2.0
// What consumer warpgroups of any element type have in common: their place in a block, how they wait for items and
// steps and let go of them, and how O and the LSE leave.
#pragma once

#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/tensor.hpp>

#include "hopper/row_maxima.cuh"
#include "hopper/softmax.cuh"
#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// All lanes of a warp call every function together.
template <class T>
class StepConsumer {
 protected:
  using KernelTraits = T;
  static constexpr float kLn2 = 0.69314718055994531f;

  __device__ StepConsumer(SharedStorage<T>& shared, int group)
      : s_(shared),
        group_(group),
        thread_(static_cast<int>(threadIdx.x) % 128),
        lane_(static_cast<int>(threadIdx.x) % 32),
        part_(group % T::kQueryParts),
        row_(group * 64 + thread_ / 32 * 16 + thread_ % 32 / 4) {}

  // Waits for the queries of item `work` of the block's; where that is, and no sequence when there is none.
  __device__ typename T::Place WaitForItem(uint32_t work) {
    WaitFull(s_.q_full[part_], work);
    typename T::Place place{};
    if (lane_ == 0) place = s_.places[part_][work % T::kQuerySlots];
    place.sequence = __shfl_sync(kAllLanes, place.sequence, 0);
    place.head = __shfl_sync(kAllLanes, place.head, 0);
    place.tile = __shfl_sync(kAllLanes, place.tile, 0);
    if constexpr (T::kPacked) {
      place.first_position = __shfl_sync(kAllLanes, place.first_position, 0);
      place.seq_k = __shfl_sync(kAllLanes, place.seq_k, 0);
    }
    return place;
  }
  // Waits for the next item's queries; false when there is no item left.
  __device__ bool TakePlace() {
    place_ = WaitForItem(work_);
    return place_.sequence >= 0;
  }

  // The item's queries as A operands, of heads whose rows fill one slab: a word has neighbouring components of row
  // row_ + 8 * (word % 2), the four words of a product's summed dimension those of both rows and of its 16-byte halves.
  template <class Words>
  __device__ void ReadQueries(Words& words) const {
    const char* const slot = s_.q[work_ % T::kQuerySlots];
    CUTE_UNROLL
    for (int i = 0; i < decltype(cute::size(words))::value; ++i) {
      const int row = row_ + i % 2 * 8, chunk = i / 4 * 2 + i / 2 % 2;
      words(i) = *reinterpret_cast<const uint32_t*>(slot + row * kSlabBytes + ((chunk ^ row % 8) << 4) + lane_ % 4 * 4);
    }
  }

  // What there is already of a step, asked for while there is other work to do.
  struct Ahead {
    bool ready;      // it is described, and its keys are there
    uint32_t flags;  // lane 0's, of one that is described
  };
  __device__ Ahead LookAhead(uint32_t step) {
    const bool described = IsFull(s_.step_full, step);
    Ahead ahead{IsFull(s_.k_full, step) && described, 0};
    if (described && lane_ == 0) ahead.flags = s_.steps[step % T::kStepRing].flags;
    return ahead;
  }
  // Waits for a step's keys and returns its flags. Of what is rare only one jump stands in the way.
  __device__ uint32_t WaitForKeys(uint32_t step, const Ahead& ahead) {
    uint32_t flags = __shfl_sync(kAllLanes, ahead.flags, 0);
    if (!ahead.ready || (flags & kStepGathered) != 0) [[unlikely]] {
      WaitFull(s_.step_full, step);
      if (lane_ == 0) flags = s_.steps[step % T::kStepRing].flags;
      flags = __shfl_sync(kAllLanes, flags, 0);
      WaitTogether(s_.k_full, step);
      cutlass::arch::fence_view_async_shared();
    }
    return flags;
  }
  __device__ uint32_t WaitForKeys(uint32_t step) { return WaitForKeys(step, Ahead{}); }

  // Lanes that poll a barrier may see it pass at different times, and what follows is wgmma, which takes whole warps.
  template <uint32_t kSlots>
  __device__ void WaitTogether(uint64_t (&full)[kSlots], uint32_t number) {
    WaitFull(full, number);
    __syncwarp();
  }

  __device__ void Release(uint64_t& empty) {
    if (lane_ == 0) Mbarrier::arrive(&empty);
  }
  // A step's values are the last that is used of it.
  __device__ void ReleaseValues(uint32_t step) {
    Release(s_.v_empty[step % T::kStages]);
    Release(s_.step_empty[step % T::kStepRing]);
  }

  // Writes the LSE of one of the thread's rows, `query`, in base e: the sum is under a shift of so many powers of two.
  __device__ static void WriteLse(const typename T::Params& p, const typename T::Place& place, int query, float sum,
                                  float shift) {
    p.lse[LseOf(p, place, query)] = sum == 0.0f ? -INFINITY : (shift + __log2f(sum)) * kLn2;
  }

  // Writes the largest scores of the thread's rows; scale_log2: what makes exponents of two of them.
  __device__ void WriteLargest(const typename T::Params& p, const typename T::Place& place, const RowMaxima& maxima,
                               float scale_log2) const {
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float largest = maxima.OfRow(r, scale_log2 * kLn2);
      const int query = place.tile * T::kRows + row_ + 8 * r;
      if (lane_ % 4 == 0 && query < NumQueries(p, place)) p.row_max[LseOf(p, place, query)] = largest;
    }
  }

  // O leaves by warps: a warp stores 16 rows of 16 columns at once, as four matrices of 8 x 8: upper and lower rows of
  // the first 8 columns, then of the others. A lane names one row of one of them: here, in the slab of 16 rows at
  // `first`. Its place is unknown to the compiler, which would compute all places ahead of the items and keep them in
  // local memory.
  __device__ uint32_t RowPlace(const char* first) const {
    uint32_t place = cute::cast_smem_ptr_to_uint(first) +
                     static_cast<uint32_t>(lane_ % 16 * kSlabBytes + ((lane_ % 8 ^ lane_ / 16) << 4));
    asm volatile("" : "+r"(place));
    return place;
  }
  // 16 columns from `column` on, of slabs that lie so far apart.
  __device__ static void StoreColumns(uint32_t row_place, int column, int slab_bytes, const uint32_t (&pairs)[4]) {
    const uint32_t target =
        (row_place ^ static_cast<uint32_t>(column % 64 / 8 << 4)) + static_cast<uint32_t>(column / 64 * slab_bytes);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(pairs[0]),
                 "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
  }

  // Until what this warp has sent has been read.
  __device__ void WaitForOutput() const {
    if (lane_ == 0) cute::tma_store_wait<0>();
    __syncwarp();
  }

  SharedStorage<T>& s_;
  const int group_;
  const int thread_;
  const int lane_;
  const int part_;  // of the queries
  const int row_;   // the thread's first row in an item
  typename T::Place place_{};
  uint32_t work_ = 0;  // items begun before the present one
};

}  // namespace headscope::kernels::hopper
