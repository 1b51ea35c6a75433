// SPDX-License-Identifier: Apache-2.0
// What consumer warpgroups of both FP8 kernels have in common beside their main loops: how an item begins, with queries
// that stay in registers and scales of its head, and how its rows leave.
#pragma once

#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/tensor.hpp>

#include "fp8/fp8_softmax.cuh"
#include "hopper/step_consumer.cuh"

namespace headscope::kernels::fp8 {

// All lanes of a warp call every function together.
template <class T>
class ItemConsumer : protected hopper::StepConsumer<T> {
 protected:
  using Element = typename T::Element;
  using Base = hopper::StepConsumer<T>;
  using Base::group_, Base::lane_, Base::place_, Base::row_, Base::s_, Base::thread_, Base::work_;
  using Base::WaitForOutput, Base::WaitTogether;

  __device__ ItemConsumer(const Fp8Params& params, hopper::SharedStorage<T>& shared, int group)
      : Base(shared, group), p_(params) {}

  // Waits for the next item's queries; false when there is no item left.
  __device__ bool TakeItem() {
    if (!Base::TakePlace()) return false;
    const int64_t kv_head =
        static_cast<int64_t>(place_.sequence) * p_.num_kv_heads + Quotient(place_.head, p_.by_group_size);
    const int64_t head = static_cast<int64_t>(place_.sequence) * p_.index.num_qo_heads + place_.head;
    scale_log2_ = p_.scale_log2 * p_.q_scale[head] * p_.k_scale[kv_head];
    value_scale_ = p_.v_scale[kv_head];
    if (lane_ == 0) s_.scale_log2[threadIdx.x / 32 % T::kWarps] = scale_log2_;
    __syncwarp();
    return true;
  }
  __device__ float ScaleOnceMore() const {
    float scale;
    asm volatile("ld.volatile.shared.f32 %0, [%1];"
                 : "=f"(scale)
                 : "r"(cute::cast_smem_ptr_to_uint(&s_.scale_log2[threadIdx.x / 32 % T::kWarps]))
                 : "memory");
    return scale;
  }

  // Those who wrote gathered ones have fenced them.
  __device__ void WaitForValues(uint32_t step) { WaitTogether(s_.v_full, step); }

  // Takes the item's queries out of their slot, which is free then.
  template <class Words>
  __device__ void LoadQueries(Words& words) {
    Base::ReadQueries(words);
    hopper::ArriveMany(&s_.q_empty[0][work_ % T::kQuerySlots], 1);
  }

  // Divides by the sum, writes the LSE, and sends O.
  template <class Output>
  __device__ void Finish(const hopper::ItemPlace& place, float value_scale,
                         const hopper::SoftmaxState<Element>& softmax, Output& output) {
    float normaliser[2];
    for (int r = 0; r < 2; ++r) {
      const float sum = hopper::QuadSum(softmax.row_sum[r]);
      normaliser[r] = sum == 0.0f ? 0.0f : __fdividef(value_scale, sum);
      const int query = place.tile * T::kRows + row_ + 8 * r;
      if (p_.lse != nullptr && lane_ % 4 == 0 && query < p_.index.seq_q) {
        Base::WriteLse(p_, place, query, sum, softmax.shift[r]);
      }
    }
    WaitForOutput();
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

  const Fp8Params& p_;
  float scale_log2_ = 0.0f;  // of the item's head: quantised products to exponents of two
  float value_scale_ = 0.0f;
};

}  // namespace headscope::kernels::fp8
