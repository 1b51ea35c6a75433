// SPDX-License-Identifier: Apache-2.0
// What a wide kernel's consumers do with e4m3 rows (hopper/wide_rows.cuh is the other kind).
#pragma once

#include "fp8/item_consumer.cuh"

namespace headscope::kernels::fp8 {

// All lanes of a warp call every function together.
template <class T>
class WideRows : protected ItemConsumer<T> {
 protected:
  using Element = typename T::Element;
  using Base = ItemConsumer<T>;
  using Base::Base;

  static constexpr bool kAnchorsNextPiece = true;

  __device__ float ScaleLog2() const { return Base::scale_log2_; }

  template <class Scores, class Words>
  __device__ bool Weigh(const hopper::SoftmaxState<Element>& softmax, const Scores& scores, float (&sums)[4],
                        Words& words) const {
    return __any_sync(kAllLanes, fp8::Weigh(scores, softmax.shift, ScaleLog2(), sums, words)) == 0;
  }
  template <class Anchor, class Scores, class Words>
  __device__ void WeighFrom(const Anchor& anchor, const Scores& scores, float (&sums)[4], Words& words) const {
    fp8::WeighFrom(anchor, scores, ScaleLog2(), sums, words);
  }

  struct Finished {
    hopper::ItemPlace place;
    float value_scale;
  };
  __device__ Finished FinishedItem() const { return {Base::place_, Base::value_scale_}; }
  template <class Output>
  __device__ void Finish(const Finished& item, const hopper::SoftmaxState<Element>& softmax, Output& output) {
    Base::Finish(item.place, item.value_scale, softmax, output);
  }
  // Queries leave their slot as they come, and O has a place of its own.
  __device__ void FreeQuerySlot() {
    if (Base::work_ > 0) Base::WaitForOutput();
  }
};

}  // namespace headscope::kernels::fp8
