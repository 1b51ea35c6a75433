// SPDX-License-Identifier: Apache-2.0
// What consumers that work in pieces do with e4m3 rows (hopper/piece_rows.cuh is the other kind): an item begins with
// scales of its head and with queries that stay in registers; O leaves through a place of its own.
#pragma once

#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/tensor.hpp>

#include "fp8/fp8_softmax.cuh"
#include "hopper/step_consumer.cuh"

namespace headscope::kernels::fp8 {

// All lanes of a warp call every function together.
template <class T>
class PieceRows : protected hopper::StepConsumer<T> {
 protected:
  using Element = typename T::Element;
  using Base = hopper::StepConsumer<T>;
  using Base::group_, Base::lane_, Base::place_, Base::row_, Base::s_, Base::thread_, Base::work_;

  __device__ PieceRows(const Fp8Params& params, hopper::SharedStorage<T>& shared, int group)
      : Base(shared, group), p_(params) {}

  static constexpr bool kAnchorsNextPiece = true;
  static constexpr bool kAsksEarly = true;

  // Takes the item's queries out of their slot, which is free then.
  template <class Words>
  __device__ void BeginItem(Words& words) {
    const int64_t kv_head =
        static_cast<int64_t>(place_.sequence) * p_.num_kv_heads + Quotient(place_.head, p_.by_group_size);
    const int64_t head = static_cast<int64_t>(place_.sequence) * p_.index.num_qo_heads + place_.head;
    scale_log2_ = p_.scale_log2 * p_.q_scale[head] * p_.k_scale[kv_head];
    value_scale_ = p_.v_scale[kv_head];
    Base::ReadQueries(words);
    hopper::ArriveMany(&s_.q_empty[0][work_ % T::kQuerySlots], 1);
  }
  __device__ float ScaleLog2() const { return scale_log2_; }

  // Those who wrote gathered ones have fenced them.
  __device__ void WaitForValues(uint32_t step, uint32_t /*flags*/) { Base::WaitTogether(s_.v_full, step); }

  static constexpr bool kCountsLargest = false;
  template <class Scores, class Words>
  __device__ bool Weigh(const hopper::SoftmaxState<Element>& softmax, const Scores& scores, float (&sums)[4],
                        Words& words, const hopper::RowMaxima&) const {
    return __any_sync(kAllLanes, fp8::Weigh(scores, softmax.shift, scale_log2_, sums, words)) == 0;
  }
  template <class Anchor, class Scores, class Words>
  __device__ void WeighFrom(const Anchor& anchor, const Scores& scores, float (&sums)[4], Words& words,
                            const hopper::RowMaxima&) const {
    fp8::WeighFrom(anchor, scores, scale_log2_, sums, words);
  }

  struct Finished {
    hopper::ItemPlace place;
    float value_scale, scale_log2;
  };
  __device__ Finished FinishedItem() const { return {place_, value_scale_, scale_log2_}; }

  __device__ void WriteRowMax(const Finished& item, const hopper::RowMaxima& maxima) const {
    Base::WriteLargest(p_, item.place, maxima, item.scale_log2);
  }

  // Divides by the sum, writes the LSE, and sends O.
  template <class Output>
  __device__ void Finish(const Finished& item, const hopper::SoftmaxState<Element>& softmax, Output& output) {
    const hopper::ItemPlace& place = item.place;
    float normaliser[2];
    for (int r = 0; r < 2; ++r) {
      const float sum = hopper::QuadSum(softmax.row_sum[r]);
      normaliser[r] = sum == 0.0f ? 0.0f : __fdividef(item.value_scale, sum);
      const int query = place.tile * T::kRows + row_ + 8 * r;
      if (p_.lse != nullptr && lane_ % 4 == 0 && query < p_.index.seq_q) {
        Base::WriteLse(p_, place, query, sum, softmax.shift[r]);
      }
    }
    Base::WaitForOutput();
    const int warp_row = group_ * 64 + thread_ / 32 * kOutputRows;
    char(&slabs)[2][kOutputRows * hopper::kSlabBytes] = s_.o[warp_row / kOutputRows];
    const uint32_t row_place = Base::RowPlace(slabs[0]);
    CUTE_UNROLL
    for (int i = 0; i < decltype(cute::size(output))::value; i += 8) {
      uint32_t pairs[4];
      CUTE_UNROLL
      for (int j = 0; j < 4; ++j) {
        const float low = output(i + 2 * j) * normaliser[j % 2], high = output(i + 2 * j + 1) * normaliser[j % 2];
        pairs[j] = p_.half_output ? hopper::RoundedPair<cutlass::half_t>(low, high)
                                  : hopper::RoundedPair<cutlass::bfloat16_t>(low, high);
      }
      Base::StoreColumns(row_place, i / 4 * 8, kOutputRows * hopper::kSlabBytes, pairs);
    }
    cutlass::arch::fence_view_async_shared();
    __syncwarp();
    // Each warp sends its own rows, so that none waits for another.
    if (lane_ == 0 && place.tile * T::kRows + warp_row < p_.index.seq_q) {
      CUTE_UNROLL
      for (int slab = 0; slab < 2; ++slab) {
        cute::SM90_TMA_STORE_4D::copy(&p_.o, slabs[slab], slab * 64, place.tile * T::kRows + warp_row, place.head,
                                      place.sequence);
      }
      cute::tma_store_arrive();
    }
    __syncwarp();
  }

  // Queries leave their slot as they come.
  __device__ void FreeQuerySlot() const {}
  // Behind the last item.
  __device__ void End() { Base::WaitForOutput(); }

  const Fp8Params& p_;

 private:
  float scale_log2_ = 0.0f;  // of the item's head: quantised products to exponents of two
  float value_scale_ = 0.0f;
};

}  // namespace headscope::kernels::fp8
