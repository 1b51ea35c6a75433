// SPDX-License-Identifier: Apache-2.0
// A consumer warpgroup that works on one piece of 64 keys at a time: 64 rows of an item. At 16 bits with head_dim 64,
// and in FP8 with 128, exponentials take as long as both products, so what counts is that some group always has some to
// take. The tensor cores make a piece's scores and then the output of the piece before, and the latter goes on while
// the exponentials are taken. Where items have three groups, which hide each other's exponentials best, pieces are what
// their threads have registers for.
//
// A group's own chain, from scores to scores, is longer than the units' work, so nothing that can be known or asked for
// beside it stands in it: what a step or the next item waits for is waited for while the tensor cores make scores.
#pragma once

#include <cute/tensor.hpp>

#include "hopper/softmax.cuh"
#include "hopper/step_consumer.cuh"

namespace headscope::kernels::hopper {

// Rows: what depends on the elements' type, PieceRows of either kind. Walk_: how steps are found (piece_walks.cuh).
template <class T, class Rows, template <class> class Walk_>
class PieceConsumer : Walk_<Rows> {
 public:
  using Element = typename T::Element;

  __device__ PieceConsumer(const typename T::Params& params, SharedStorage<T>& shared, int group)
      : Walk(params, shared, group) {}

  __device__ void Run() {
    using namespace cute;
    typename T::MmaQk mma_qk;
    typename T::MmaPv mma_pv;
    auto group_qk = mma_qk.get_slice(group_ * 128);
    auto group_pv = mma_pv.get_slice(group_ * 128);
    Tensor k = make_tensor(make_smem_ptr(reinterpret_cast<Element*>(s_.k)), typename T::LayoutK{});
    Tensor v = make_tensor(make_smem_ptr(reinterpret_cast<Element*>(s_.v)), typename T::LayoutVt{});
    Tensor k_operand = group_qk.partition_fragment_B(k);  // (mma, piece, k, stage)
    Tensor v_operand = group_pv.partition_fragment_B(v);  // (mma, 1, k of both pieces, stage)
    Tensor scores = partition_fragment_C(mma_qk, Shape<Int<T::kRows>, Int<T::kPieceColumns>>{});
    Tensor output = partition_fragment_C(mma_pv, Shape<Int<T::kRows>, Int<T::kValueDim>>{});
    // A operands: four registers for each 32 bytes of the summed dimension. Queries stay in theirs, as shared memory
    // has enough to do with the keys: of a product of 64 columns both operands would take all that it can read.
    constexpr int kPacked = 4 / sizeof(Element);
    using Words = Shape<Int<kPacked>, _2, _2>;
    Tensor queries = make_tensor<Element>(Layout<Shape<Words, _1, Int<kSlabBytes / 32>>>{});
    // Of either piece of a step: one's are made while the tensor cores read the other's.
    constexpr int kWeightChunks = T::kPieceColumns / (8 * kPacked);
    using WeightsLayout = Layout<Shape<Words, _1, Int<kWeightChunks>>>;
    Tensor first_weights = make_tensor<Element>(WeightsLayout{});
    Tensor second_weights = make_tensor<Element>(WeightsLayout{});
    static_assert(decltype(size(first_weights))::value == decltype(size(scores))::value);
    Tensor query_words = recast<uint32_t>(queries);
    SoftmaxState<Element> softmax;
    [[maybe_unused]] RowMaxima maxima;

    const auto issue_qk = [&](uint32_t step, int piece) {
      warpgroup_fence_operand(scores);
      warpgroup_fence_operand(queries);
      warpgroup_arrive();
      mma_qk.accumulate_ = GMMA::ScaleOut::Zero;
      CUTE_UNROLL
      for (int i = 0; i < kSlabBytes / 32; ++i) {
        cute::gemm(mma_qk, queries(_, 0, i), k_operand(_, piece, i, step % T::kStages), scores(_, 0, 0));
        mma_qk.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
    };
    const auto issue_pv = [&](auto& weights, uint32_t step, int piece) {
      warpgroup_fence_operand(output);
      warpgroup_fence_operand(weights);
      warpgroup_arrive();
      CUTE_UNROLL
      for (int i = 0; i < kWeightChunks; ++i) {
        cute::gemm(mma_pv, weights(_, _, i), v_operand(_, _, piece * kWeightChunks + i, step % T::kStages), output);
        mma_pv.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
    };
    const auto mask = [&](uint32_t step, int piece) { Walk::Mask(scores, step, piece); };
    // Where weighing does not count them.
    const auto take_largest = [&] {
      if constexpr (T::kHasRowMax && !Rows::kCountsLargest) maxima.Take(scores);
    };
    float sums[4];
    const auto weigh = [&](auto& weights) {
      Tensor words = recast<uint32_t>(weights);
      const bool fits = Rows::Weigh(softmax, scores, sums, words, maxima);
      // Something that needs all weights, packed, so that the compiler does not move them behind the wait.
      if (!fits) [[unlikely]] {
        uint32_t all = 0;
        CUTE_UNROLL
        for (int i = 0; i < decltype(size(words))::value; ++i) all ^= words(i);
        __nanosleep(all >> 31);
      }
      return fits;
    };
    // Raises the shifts and makes the weights of the scores at hand anew. Nothing may be in flight.
    const auto raise = [&](auto& weights) {
      float correction[2];
      const auto anchor = softmax.Raise(scores, Rows::ScaleLog2(), correction);
      Tensor words = recast<uint32_t>(weights);
      // Before an item's first product there is no O: that product overwrites what is left of the item before.
      if (mma_pv.accumulate_ == GMMA::ScaleOut::One) {
        CUTE_UNROLL
        for (int i = 0; i < decltype(size(output))::value; ++i) output(i) *= correction[i / 2 % 2];
      }
      if (softmax.IsEnormous()) [[unlikely]] {
        Rows::WeighFrom(anchor, scores, sums, words, maxima);
      } else {
        Rows::Weigh(softmax, scores, sums, words, maxima);
      }
    };

    uint32_t step = 0;  // counted over all items
    place_ = Rows::WaitForItem(work_);
    if (place_.sequence >= 0) {
      Walk::Await(step);
      Rows::BeginItem(query_words);
      Walk::Begin();
    }
    clear(output);
    issue_qk(step, 0);
    while (place_.sequence >= 0) {
      mma_pv.accumulate_ = GMMA::ScaleOut::Zero;
      softmax = {};
      if constexpr (T::kHasRowMax) maxima = {};
      Walk::AwaitValues(step);
      warpgroup_wait<0>();
      warpgroup_fence_operand(scores);
      mask(step, 0);
      take_largest();
      raise(first_weights);
      softmax.Add(sums);
      bool again = Rows::kAnchorsNextPiece && softmax.IsEnormous();
      Rows::FreeQuerySlot();
      typename T::Place next_place{};
      while (true) {
        // The first piece's weights are there.
        const bool last = Walk::IsLast();
        issue_qk(step, 1);
        issue_pv(first_weights, step, 0);
        // Long there, mostly, and asked while the scores are made.
        if (Rows::kAsksEarly && last) next_place = Rows::WaitForItem(work_ + 1);
        if (!last || (Rows::kAsksEarly && next_place.sequence >= 0)) Walk::Await(step + 1);
        warpgroup_wait<1>();
        warpgroup_fence_operand(scores);
        Release(s_.k_empty[step % T::kStages]);
        mask(step, 1);
        bool fits = weigh(second_weights);
        take_largest();
        warpgroup_wait<0>();
        warpgroup_fence_operand(output);
        if (!fits || again) [[unlikely]]
          raise(second_weights);
        again = false;
        softmax.Add(sums);
        if (last) break;
        const uint32_t next = Walk::Next(step);
        issue_qk(next, 0);
        issue_pv(second_weights, step, 1);
        Walk::AwaitValues(next);
        warpgroup_wait<1>();
        warpgroup_fence_operand(scores);
        mask(next, 0);
        fits = weigh(first_weights);
        take_largest();
        warpgroup_wait<0>();
        warpgroup_fence_operand(output);
        Walk::LetGo(step);
        step = next;
        if (!fits) [[unlikely]]
          raise(first_weights);
        softmax.Add(sums);
      }
      // The first product of the next item follows this one's last, so that the tensor cores work while O leaves.
      issue_pv(second_weights, step, 1);
      const auto finished = Rows::FinishedItem();
      ++work_;
      place_ = Rows::kAsksEarly ? next_place : Rows::WaitForItem(work_);
      if (place_.sequence >= 0) {
        if (!Rows::kAsksEarly) Walk::Await(step + 1);
        Rows::BeginItem(query_words);
        Walk::Begin();
      }
      // Behind the last item it multiplies what is left in shared memory, and nobody looks at the outcome.
      issue_qk(step + 1, 0);
      warpgroup_wait<1>();
      warpgroup_fence_operand(output);
      Walk::LetGo(step);
      ++step;
      if constexpr (T::kHasRowMax) Rows::WriteRowMax(finished, maxima);
      Rows::Finish(finished, softmax, output);
    }
    warpgroup_wait<0>();
    Rows::End();
  }

 private:
  using Walk = Walk_<Rows>;
  using Rows::group_, Rows::place_, Rows::s_, Rows::work_;
  using Rows::Release;
};

}  // namespace headscope::kernels::hopper
