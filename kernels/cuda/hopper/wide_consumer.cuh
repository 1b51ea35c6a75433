// SPDX-License-Identifier: Apache-2.0
// A consumer warpgroup of the wide kernels: 64 of an item's 192 rows. At 16 bits with head_dim 64, and in FP8 with 128,
// exponentials take as long as both products, so what counts is that some group always has some to take. Three groups
// do, which takes threads of few registers: so they work on one piece of 64 keys at a time. The tensor cores make its
// scores and then the output of the piece before, and the latter goes on while the exponentials are taken.
//
// A group's own chain, from scores to scores, is longer than the units' work, so nothing that can be known or asked for
// beside it stands in it: steps follow from the item's place, and what a step waits for is waited for while the tensor
// cores make scores.
#pragma once

#include <cute/tensor.hpp>

#include "hopper/softmax.cuh"
#include "hopper/step_consumer.cuh"
#include "hopper/wide_steps.cuh"

namespace headscope::kernels::hopper {

// Rows: what depends on the elements' type, WideRows of either kind.
template <class T, class Rows>
class WideConsumer : Rows {
 public:
  using Element = typename T::Element;

  __device__ WideConsumer(const typename T::Params& params, SharedStorage<T>& shared, int group)
      : Rows(params, shared, group) {}

  __device__ void Run() {
    using namespace cute;
    typename T::MmaQk mma_qk;
    typename T::MmaPv mma_pv;
    auto group_qk = mma_qk.get_slice(group_ * 128);
    auto group_pv = mma_pv.get_slice(group_ * 128);
    Tensor k = make_tensor(make_smem_ptr(reinterpret_cast<Element*>(s_.k)), typename T::LayoutK{});
    Tensor v = make_tensor(make_smem_ptr(reinterpret_cast<Element*>(s_.v)), typename T::LayoutVt{});
    Tensor k_operand = group_qk.partition_fragment_B(k);  // (mma, n, k, stage and piece)
    Tensor v_operand = group_pv.partition_fragment_B(v);
    Tensor scores = partition_fragment_C(mma_qk, Shape<Int<T::kRows>, Int<T::kPieceColumns>>{});
    Tensor output = partition_fragment_C(mma_pv, Shape<Int<T::kRows>, Int<T::kValueDim>>{});
    // A operands: four registers for each 32 bytes of the summed dimension. Queries stay in theirs, as shared memory
    // has enough to do with the keys: of a product of 64 columns both operands would take all that it can read.
    constexpr int kPacked = 4 / sizeof(Element);
    using Words = Shape<Int<kPacked>, _2, _2>;
    Tensor queries = make_tensor<Element>(Layout<Shape<Words, _1, Int<kSlabBytes / 32>>>{});
    // Of either piece of a step: one's are made while the tensor cores read the other's.
    using WeightsLayout = Layout<Shape<Words, _1, Int<T::kPieceColumns / (8 * kPacked)>>>;
    Tensor first_weights = make_tensor<Element>(WeightsLayout{});
    Tensor second_weights = make_tensor<Element>(WeightsLayout{});
    static_assert(decltype(size(first_weights))::value == decltype(size(scores))::value);
    Tensor query_words = recast<uint32_t>(queries);
    SoftmaxState<Element> softmax;

    const auto stage_of = [](uint32_t step, int piece) { return step % T::kStages * T::kPieces + piece; };
    const auto issue_qk = [&](uint32_t stage) {
      warpgroup_fence_operand(scores);
      warpgroup_fence_operand(queries);
      warpgroup_arrive();
      mma_qk.accumulate_ = GMMA::ScaleOut::Zero;
      CUTE_UNROLL
      for (int i = 0; i < kSlabBytes / 32; ++i) {
        cute::gemm(mma_qk, queries(_, _, i), k_operand(_, _, i, stage), scores);
        mma_qk.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
    };
    const auto issue_pv = [&](auto& weights, uint32_t stage) {
      warpgroup_fence_operand(output);
      warpgroup_fence_operand(weights);
      warpgroup_arrive();
      CUTE_UNROLL
      for (int i = 0; i < decltype(size<2>(v_operand))::value; ++i) {
        cute::gemm(mma_pv, weights(_, _, i), v_operand(_, _, i, stage), output);
        mma_pv.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
    };
    WideSteps steps{};  // of the item
    const auto mask = [&](int at, int piece) {
      if (steps.IsMasked(at)) [[unlikely]]
        MaskCausal(scores, steps.Tile(at) * T::kTileColumns + piece * T::kPieceColumns);
    };
    float sums[4];
    const auto weigh = [&](auto& weights) {
      Tensor words = recast<uint32_t>(weights);
      const bool fits = Rows::Weigh(softmax, scores, sums, words);
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
        Rows::WeighFrom(anchor, scores, sums, words);
      } else {
        Rows::Weigh(softmax, scores, sums, words);
      }
    };

    const auto begin_item = [&] {
      steps = StepsOf<T>(p_, place_);
      Rows::LoadQueries(query_words);
    };
    uint32_t step = 0;  // counted over all items
    bool more = Rows::TakeItem();
    if (more) {
      begin_item();
      WaitTogether(s_.k_full, step);
    }
    clear(output);
    issue_qk(stage_of(step, 0));
    while (more) {
      mma_pv.accumulate_ = GMMA::ScaleOut::Zero;
      softmax = {};
      int at = 0;  // the item's step
      WaitTogether(s_.v_full, step);
      warpgroup_wait<0>();
      warpgroup_fence_operand(scores);
      mask(at, 0);
      raise(first_weights);
      softmax.Add(sums);
      bool again = Rows::kAnchorsNextPiece && softmax.IsEnormous();
      FreeQuerySlot();
      while (true) {
        // The first piece's weights are there.
        const bool last = at + 1 == steps.Count();
        issue_qk(stage_of(step, 1));
        issue_pv(first_weights, stage_of(step, 0));
        // Long there, mostly, and asked while the scores are made.
        if (!last) WaitTogether(s_.k_full, step + 1);
        warpgroup_wait<1>();
        warpgroup_fence_operand(scores);
        Release(s_.k_empty[step % T::kStages]);
        mask(at, 1);
        bool fits = weigh(second_weights);
        warpgroup_wait<0>();
        warpgroup_fence_operand(output);
        if (!fits || again) [[unlikely]]
          raise(second_weights);
        again = false;
        softmax.Add(sums);
        if (last) break;
        uint32_t next = step + 1;
        ++at;
        // Steps on the diagonal that lie behind all rows of this group.
        while (steps.IsMasked(at) && at + 1 < steps.Count() && BehindRows(steps.Tile(at))) {
          Release(s_.k_empty[next % T::kStages]);
          WaitTogether(s_.v_full, next);
          Release(s_.v_empty[next % T::kStages]);
          ++next;
          ++at;
          WaitTogether(s_.k_full, next);
        }
        issue_qk(stage_of(next, 0));
        issue_pv(second_weights, stage_of(step, 1));
        WaitTogether(s_.v_full, next);
        warpgroup_wait<1>();
        warpgroup_fence_operand(scores);
        mask(at, 0);
        fits = weigh(first_weights);
        warpgroup_wait<0>();
        warpgroup_fence_operand(output);
        Release(s_.v_empty[step % T::kStages]);
        step = next;
        if (!fits) [[unlikely]]
          raise(first_weights);
        softmax.Add(sums);
      }
      // The first product of the next item follows this one's last, so that the tensor cores work while O leaves.
      issue_pv(second_weights, stage_of(step, 1));
      const auto finished = Rows::FinishedItem();
      ++work_;
      more = Rows::TakeItem();
      if (more) {
        begin_item();
        WaitTogether(s_.k_full, step + 1);
      }
      // Behind the last item it multiplies what is left in shared memory, and nobody looks at the outcome.
      issue_qk(stage_of(step + 1, 0));
      warpgroup_wait<1>();
      warpgroup_fence_operand(output);
      Release(s_.v_empty[step % T::kStages]);
      ++step;
      Rows::Finish(finished, softmax, output);
    }
    warpgroup_wait<0>();
    FreeQuerySlot();
  }

 private:
  using Rows::FreeQuerySlot, Rows::Release, Rows::WaitTogether;
  using Rows::group_, Rows::lane_, Rows::p_, Rows::place_, Rows::row_, Rows::s_, Rows::work_;

  // Whether all of a tile's keys lie behind the positions of the group's rows.
  __device__ bool BehindRows(int tile) const {
    return tile * T::kTileColumns >= p_.index.first_position + place_.tile * T::kRows + (group_ + 1) * 64;
  }

  // Keys behind a row's position, of the piece that begins with key `start`.
  template <class Scores>
  __device__ void MaskCausal(Scores& scores, int start) const {
    // Where the thread's first row ends among the columns that it holds.
    const int end = p_.index.first_position + place_.tile * T::kRows + row_ - start - 2 * (lane_ % 4);
    CUTE_UNROLL
    for (int i = 0; i < decltype(cute::size(scores))::value; ++i) {
      if (i / 4 * 8 + i % 2 > end + i / 2 % 2 * 8) scores(i) = -INFINITY;
    }
  }
};

}  // namespace headscope::kernels::hopper
