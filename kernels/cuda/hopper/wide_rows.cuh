// SPDX-License-Identifier: Apache-2.0
// What a wide kernel's consumers do with 16-bit rows: how an item begins and ends, and how weights are made
// (fp8/fp8_wide_rows.cuh is the other kind).
#pragma once

#include "hopper/tensor_consumer.cuh"

namespace headscope::kernels::hopper {

// All lanes of a warp call every function together.
template <class T>
class WideRows : protected TensorConsumer<T> {
 protected:
  using Element = typename T::Element;
  using Base = TensorConsumer<T>;
  using Base::Base;

  // Whether an enormous shift tells weights only against the scores that it was raised by, so that the next piece's
  // count from their own.
  static constexpr bool kAnchorsNextPiece = false;

  __device__ bool TakeItem() { return Base::TakePlace(); }
  template <class Words>
  __device__ void LoadQueries(Words& words) const {
    Base::ReadQueries(words);
  }
  __device__ float ScaleLog2() const { return Base::p_.scale_log2; }

  // The weights of a piece's scores, and whether they may stand; the same for all lanes of a warp.
  template <class Scores, class Words>
  __device__ bool Weigh(const SoftmaxState<Element>& softmax, const Scores& scores, float (&sums)[4],
                        Words& words) const {
    softmax.template Weigh<0, decltype(cute::size(scores))::value>(scores, ScaleLog2(), sums, Packing(words));
    return softmax.Fits(sums);
  }
  // The same from the differences to the rows' largest scores.
  template <class Anchor, class Scores, class Words>
  __device__ void WeighFrom(const Anchor& anchor, const Scores& scores, float (&sums)[4], Words& words) const {
    SoftmaxState<Element>::WeighFrom(anchor, scores, ScaleLog2(), sums, Packing(words));
  }

  // What is kept of an item until its rows leave.
  struct Finished {
    typename T::Place place;
    uint32_t slot;
  };
  __device__ Finished FinishedItem() const { return {Base::place_, Base::work_ % T::kQuerySlots}; }
  template <class Output>
  __device__ void Finish(const Finished& item, const SoftmaxState<Element>& softmax, Output& output) {
    Base::Finish(item.place, item.slot, softmax, output);
  }

 private:
  template <class Words>
  __device__ static auto Packing(Words& words) {
    return [&words](int i, float low, float high) { words(i / 2) = RoundedPair<Element>(low, high); };
  }
};

}  // namespace headscope::kernels::hopper
