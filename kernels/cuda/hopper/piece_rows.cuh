// SPDX-License-Identifier: Apache-2.0
// What consumers that work in pieces do with 16-bit rows: how an item begins and ends, and how weights are made
// (fp8/fp8_rows.cuh is the other kind).
#pragma once

#include "hopper/tensor_consumer.cuh"

namespace headscope::kernels::hopper {

// All lanes of a warp call every function together.
template <class T>
class PieceRows : protected TensorConsumer<T> {
 protected:
  using Element = typename T::Element;
  using Base = TensorConsumer<T>;
  using Base::Base;

  // Whether an enormous shift tells weights only against the scores that it was raised by, so that the next piece's
  // count from their own.
  static constexpr bool kAnchorsNextPiece = false;
  // The next item is asked for behind an item's last product: threads have no registers for its place before (2 %).
  static constexpr bool kAsksEarly = false;

  // Takes the item's queries into registers.
  template <class Words>
  __device__ void BeginItem(Words& words) const {
    Base::ReadQueries(words);
  }
  __device__ float ScaleLog2() const { return Base::p_.scale_log2; }

  // The weights of a piece's scores, and whether they may stand; the same for all lanes of a warp. Their largest count
  // with them.
  static constexpr bool kCountsLargest = true;
  template <class Scores, class Words>
  __device__ bool Weigh(const SoftmaxState<Element>& softmax, const Scores& scores, float (&sums)[4], Words& words,
                        RowMaxima& maxima) const {
    softmax.template Weigh<0, decltype(cute::size(scores))::value>(scores, ScaleLog2(), sums,
                                                                   Packing(scores, words, maxima));
    return softmax.Fits(sums);
  }
  // The same from the differences to the rows' largest scores.
  template <class Anchor, class Scores, class Words>
  __device__ void WeighFrom(const Anchor& anchor, const Scores& scores, float (&sums)[4], Words& words,
                            RowMaxima& maxima) const {
    SoftmaxState<Element>::WeighFrom(anchor, scores, ScaleLog2(), sums, Packing(scores, words, maxima));
  }

  // What is kept of an item until its rows leave.
  struct Finished {
    ItemPlace place;
    uint32_t slot;
  };
  __device__ Finished FinishedItem() const { return {Base::place_, Base::work_ % T::kQuerySlots}; }
  template <class Output>
  __device__ void Finish(const Finished& item, const SoftmaxState<Element>& softmax, Output& output) {
    Base::Finish(item.place, item.slot, softmax, output);
  }
  __device__ void WriteRowMax(const Finished& item, const RowMaxima& maxima) const {
    Base::WriteLargest(Base::p_, Base::Whole(item.place, item.slot), maxima, ScaleLog2());
  }
  // Behind the last item.
  __device__ void End() { Base::FreeQuerySlot(); }

 private:
  template <class Scores, class Words>
  __device__ static auto Packing(const Scores& scores, Words& words, RowMaxima& maxima) {
    return [&](int i, float low, float high) {
      words(i / 2) = RoundedPair<Element>(low, high);
      if constexpr (T::kHasRowMax) maxima.Count(i, scores(i), scores(i + 1));
    };
  }
};

}  // namespace headscope::kernels::hopper
