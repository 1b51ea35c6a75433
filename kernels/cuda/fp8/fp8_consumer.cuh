// SPDX-License-Identifier: Apache-2.0
// A consumer warpgroup of the FP8 kernel for any lists: 64 query rows of an item, which stay in registers. A tile is
// taken in halves of 64 keys: while a half's exponentials are taken, the tensor cores multiply the half before with its
// values, and make the scores of the next tile in the place that it left. So a warpgroup's softmax hides behind its own
// products, and neither waits for the other warpgroup's.
//
// Between a product's issue and the exponentials beside it there is no jump: a warp stands still at an issue while the
// tensor cores have others in front of it, and only in one block of instructions can the assembler put exponentials
// between the issues (5 to 7 % slower without).
#pragma once

#include <cute/tensor.hpp>

#include "fp8/item_consumer.cuh"
#include "hopper/step_mask.cuh"

namespace headscope::kernels::fp8 {

class Consumer : ItemConsumer<Traits> {
 public:
  using T = Traits;
  using Element = T::Element;

  __device__ Consumer(const Fp8Params& params, hopper::SharedStorage<T>& shared, int group)
      : ItemConsumer(params, shared, group) {}

  __device__ void Run() {
    using namespace cute;
    typename T::MmaQk mma_qk;
    typename T::MmaPv mma_pv;
    auto group_qk = mma_qk.get_slice(group_ * 128);
    auto group_pv = mma_pv.get_slice(group_ * 128);
    Tensor k = make_tensor(make_smem_ptr(reinterpret_cast<Element*>(s_.k)), typename T::LayoutK{});
    Tensor v = make_tensor(make_smem_ptr(reinterpret_cast<Element*>(s_.v)), typename T::LayoutVt{});
    Tensor k_operand = group_qk.partition_fragment_B(k);  // (mma, half, k, stage)
    Tensor v_operand = group_pv.partition_fragment_B(v);  // (mma, n, k, stage)
    Tensor scores = partition_fragment_C(mma_qk, Shape<Int<kItemRows>, Int<T::kTileColumns>>{});  // (mma, m, half)
    Tensor output = partition_fragment_C(mma_pv, Shape<Int<kItemRows>, Int<kHeadDim>>{});
    // A operands: four registers for each 32 components of the queries, and for each 32 keys of half a tile's weights.
    Tensor queries = make_tensor<Element>(Layout<Shape<Shape<_4, _2, _2>, _1, Int<kHeadDim / 32>>>{});
    Tensor weights = make_tensor<Element>(Layout<Shape<Shape<_4, _2, _2>, _1, Int<T::kTileColumns / 64>>>{});
    Tensor query_words = recast<uint32_t>(queries);
    Tensor weight_words = recast<uint32_t>(weights);
    hopper::SoftmaxState<Element> softmax;

    auto issue_qk = [&](auto half, uint32_t stage) {
      mma_qk.accumulate_ = GMMA::ScaleOut::Zero;
      CUTE_UNROLL
      for (int i = 0; i < kHeadDim / 32; ++i) {
        cute::gemm(mma_qk, queries(_, 0, i), k_operand(_, half, i, stage), scores(_, 0, half));
        mma_qk.accumulate_ = GMMA::ScaleOut::One;
      }
    };
    auto issue_pv = [&](auto half, uint32_t stage) {
      CUTE_UNROLL
      for (int i = 0; i < T::kTileColumns / 64; ++i) {
        cute::gemm(mma_pv, weights(_, _, i), v_operand(_, _, half * (T::kTileColumns / 64) + i, stage), output);
        mma_pv.accumulate_ = GMMA::ScaleOut::One;
      }
    };
    auto fence_operands = [&] {
      warpgroup_fence_operand(scores);
      warpgroup_fence_operand(output);
      warpgroup_fence_operand(weights);
      warpgroup_fence_operand(queries);
    };
    Tensor words = make_tensor<uint32_t>(Shape<_8>{});
    clear(words);
    float sums[4];
    // Raises the shifts by `from`, and makes the weights of a half anew. Nothing may be in flight.
    auto raise = [&](const auto& from, auto half) {
      float correction[2];
      const auto anchor = softmax.Raise(from, scale_log2_, correction);
      // Before an item's first product there is no O: that product overwrites what is left of the item before.
      if (mma_pv.accumulate_ == GMMA::ScaleOut::One) {
        CUTE_UNROLL
        for (int i = 0; i < decltype(size(output))::value; ++i) output(i) *= correction[i / 2 % 2];
      }
      Tensor own = scores(_, 0, half);
      if (softmax.IsEnormous()) [[unlikely]] {
        WeighFrom(anchor, own, scale_log2_, sums, words);
      } else {
        Weigh(own, softmax.shift, scale_log2_, sums, words);
      }
    };
    auto take_weights = [&] {
      CUTE_UNROLL
      for (int i = 0; i < 8; ++i) weight_words(i) = words(i);
      softmax.Add(sums);
    };
    constexpr Int<0> kFirstHalf;
    constexpr Int<1> kSecondHalf;
    auto mask = [&](uint32_t step, uint32_t flags, auto& of, int first_segment) {
      hopper::MaskScores<HalfTile>(of, s_.steps[step % T::kStepRing], flags, p_.index.rule, row_,
                                   p_.index.first_position + place_.tile * kItemRows + row_, first_segment);
    };
    auto begin_item = [&](uint32_t step) {
      LoadQueries(query_words);
      const uint32_t flags = WaitForKeys(step);
      warpgroup_fence_operand(scores);
      warpgroup_fence_operand(queries);
      warpgroup_arrive();
      issue_qk(kFirstHalf, step % T::kStages);
      issue_qk(kSecondHalf, step % T::kStages);
      warpgroup_commit_batch();
      return flags;
    };
    Tensor first_half = scores(_, 0, kFirstHalf);
    Tensor second_half = scores(_, 0, kSecondHalf);
    // Weighs a half while what was issued right before is in flight, and ends that. Whether weights are too large.
    auto weigh = [&](const auto& half) {
      // The scale comes from memory once more, lest the assembler take these exponentials in front of the products.
      const bool large = __any_sync(kAllLanes, Weigh(half, softmax.shift, ScaleOnceMore(), sums, words));
      // Something that needs all weights, so that the compiler does not move them behind the wait.
      if (large) [[unlikely]]
        __nanosleep(0);
      warpgroup_wait<0>();
      fence_operands();
      return large;
    };

    clear(output);
    uint32_t step = 0;  // counted over all items
    bool more = TakeItem();
    uint32_t flags = more ? begin_item(step) : 0;  // of `step`
    while (more) {
      mma_pv.accumulate_ = GMMA::ScaleOut::Zero;
      softmax = {};
      warpgroup_wait<0>();
      fence_operands();
      Release(s_.k_empty[step % T::kStages]);
      if ((flags & hopper::kStepMasked) != 0) [[unlikely]] {
        mask(step, flags, first_half, 0);
        mask(step, flags, second_half, 2);
      }
      raise(scores, kFirstHalf);
      take_weights();
      bool enormous = softmax.IsEnormous();
      Ahead ahead = LookAhead(step + 1);
      while (true) {
        // The weights of the first half are there, and the second half's scores.
        const bool last = (flags & hopper::kStepLast) != 0;
        const uint32_t stage = step % T::kStages, next_stage = (step + 1) % T::kStages;
        if (!last) flags = WaitForKeys(step + 1, ahead);
        WaitForValues(step);
        fence_operands();
        warpgroup_arrive();
        issue_pv(kFirstHalf, stage);
        issue_qk(kFirstHalf, next_stage);
        warpgroup_commit_batch();
        bool large = weigh(second_half);
        // Shifts that lie so far away tell weights only against the scores that they were raised by.
        if (large || enormous) [[unlikely]]
          raise(second_half, kSecondHalf);
        enormous = false;
        take_weights();
        if (last) break;
        if ((flags & hopper::kStepMasked) != 0) [[unlikely]]
          mask(step + 1, flags, first_half, 0);
        ahead = LookAhead(step + 2);
        fence_operands();
        warpgroup_arrive();
        issue_pv(kSecondHalf, stage);
        issue_qk(kSecondHalf, next_stage);
        warpgroup_commit_batch();
        large = weigh(first_half);
        Release(s_.k_empty[next_stage]);
        ReleaseValues(step);
        ++step;
        if ((flags & hopper::kStepMasked) != 0) [[unlikely]]
          mask(step, flags, second_half, 2);
        if (large) [[unlikely]]
          raise(first_half, kFirstHalf);
        take_weights();
      }
      fence_operands();
      warpgroup_arrive();
      issue_pv(kSecondHalf, step % T::kStages);
      warpgroup_commit_batch();
      // The next item's first scores come while O leaves.
      const hopper::ItemPlace finished = place_;
      const float value_scale = value_scale_;
      ++work_;
      more = TakeItem();
      warpgroup_wait<0>();
      fence_operands();
      ReleaseValues(step);
      ++step;
      if (more) flags = begin_item(step);
      Finish(finished, value_scale, softmax, output);
    }
    WaitForOutput();
  }

 private:
  // The segments of half a tile, for its mask.
  struct HalfTile {
    static constexpr int kSegments = T::kSegments / 2;
  };
};

}  // namespace headscope::kernels::fp8
