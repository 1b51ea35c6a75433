// SPDX-License-Identifier: Apache-2.0
// What consumer warpgroups of 16-bit kernels have in common beside their main loop: how they wait for values, and how
// an item's rows leave.
#pragma once

#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/tensor.hpp>

#include "hopper/softmax.cuh"
#include "hopper/step_consumer.cuh"

namespace headscope::kernels::hopper {

// All lanes of a warp call every function together.
template <class T>
class TensorConsumer : protected StepConsumer<T> {
 protected:
  using Element = typename T::Element;
  using Base = StepConsumer<T>;
  using Base::group_, Base::lane_, Base::part_, Base::row_, Base::s_, Base::thread_;
  using Base::WaitForOutput, Base::WaitTogether;

  __device__ TensorConsumer(const typename T::Params& params, SharedStorage<T>& shared, int group)
      : Base(shared, group), p_(params) {}

  __device__ void WaitForValues(uint32_t step, uint32_t flags) {
    WaitTogether(s_.v_full, step);
    if ((flags & kStepGathered) != 0) [[unlikely]]
      cutlass::arch::fence_view_async_shared();
  }

  // Divides by the sum, writes the LSE, and sends O: through the Q slot, whose queries are done with, or a slab at a
  // time through a place of the warp's own.
  template <class Output>
  __device__ void Finish(const ItemPlace& item, uint32_t slot, const SoftmaxState<Element>& softmax, Output& output) {
    const typename T::Place place = Whole(item, slot);
    float normaliser[2];
    for (int r = 0; r < 2; ++r) {
      float sum = QuadSum(softmax.row_sum[r]), shift = softmax.shift[r], factor = 1.0f;
      if (p_.sinks.count > 0) AddSink(p_.sinks.logit[place.head], &sum, &shift, &factor);
      normaliser[r] = sum == 0.0f ? 0.0f : __fdividef(factor, sum);
      const int query = place.tile * T::kRows + row_ + 8 * r;
      if (p_.lse != nullptr && lane_ % 4 == 0 && query < NumQueries(p_, place)) {
        Base::WriteLse(p_, place, query, sum, shift);
      }
    }
    // Every warp of the group has done its last product with these queries.
    if constexpr (!T::kOutputApart && !T::kQueriesInRegisters) BarrierSync(kGroupBarrier + group_, 128);
    const int warp_row = group_ * 64 + thread_ / 32 * kOutputRows;
    char* const first = OutputPlace(slot, warp_row);
    const uint32_t row_place = Base::RowPlace(first);
    const int query = place.tile * T::kRows + warp_row;  // the warp's first
    const int queries = NumQueries(p_, place) - query;
    // Behind the last row of all the copy engine writes nothing; behind a packed sequence's begins the next one.
    const bool sends = lane_ == 0 && queries >= (T::kPacked ? kOutputRows : 1);
    const auto send = [&](int slab) {
      cute::SM90_TMA_STORE_4D::copy(&p_.o, first + slab * kOutputSlabBytes, slab * 64, RowOf(place, query), place.head,
                                    SequenceOf(place));
    };
    CUTE_UNROLL
    for (int i = 0; i < decltype(cute::size(output))::value; i += 8) {
      // The slab before has left.
      if (T::kOutputApart && i % 32 == 0) WaitForOutput();
      uint32_t pairs[4];
      CUTE_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float scale = normaliser[j % 2];
        pairs[j] = RoundedPair<Element>(output(i + 2 * j) * scale, output(i + 2 * j + 1) * scale);
      }
      const int column = i / 4 * 8;
      Base::StoreColumns(row_place, column, kOutputSlabBytes, pairs);
      if (T::kOutputApart && i % 32 == 24) {
        cutlass::arch::fence_view_async_shared();
        __syncwarp();
        if (sends) {
          send(column / 64);
          cute::tma_store_arrive();
        }
      }
    }
    if constexpr (!T::kOutputApart) {
      cutlass::arch::fence_view_async_shared();
      __syncwarp();
      // Each warp sends its own rows, so that none waits for another.
      if (sends) {
        CUTE_UNROLL
        for (int slab = 0; slab < T::kValueSlabs; ++slab) send(slab);
        cute::tma_store_arrive();
      }
      if constexpr (T::kPacked) {
        if (queries < kOutputRows) StoreRows(p_, place, query, queries, first, kOutputSlabBytes);
      }
      __syncwarp();
      finished_slot_ = static_cast<int>(slot);
    }
  }

  // With what only the item's end needs of a packed sequence: it is still in its slot.
  __device__ typename T::Place Whole(const ItemPlace& item, uint32_t slot) const {
    if constexpr (T::kPacked) {
      typename T::Place whole{item};
      if (lane_ == 0) whole = s_.places[part_][slot];
      static_cast<ItemPlace&>(whole) = item;
      whole.first_row = __shfl_sync(kAllLanes, whole.first_row, 0);
      whole.seq_q = __shfl_sync(kAllLanes, whole.seq_q, 0);
      return whole;
    } else {
      return item;
    }
  }

  // Where this warp's rows of O go on their way out, and how far apart its slabs are there.
  __device__ char* OutputPlace(uint32_t slot, int warp_row) {
    if constexpr (T::kOutputApart) {
      return s_.o[warp_row / kOutputRows];
    } else {
      return s_.q[slot] + warp_row * kSlabBytes;
    }
  }
  static constexpr int kOutputSlabBytes = T::kOutputApart ? 0 : T::kRows * kSlabBytes;

  // Hands the slot of the last finished item back to the scheduler once this warp's share of its O has been read.
  __device__ void FreeQuerySlot() {
    if (finished_slot_ < 0) return;
    if (lane_ == 0) {
      cute::tma_store_wait<0>();
      Mbarrier::arrive(&s_.q_empty[part_][finished_slot_]);
    }
    __syncwarp();
    finished_slot_ = -1;
  }

  const typename T::Params& p_;
  int finished_slot_ = -1;
};

}  // namespace headscope::kernels::hopper
