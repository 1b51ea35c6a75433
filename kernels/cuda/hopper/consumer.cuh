// SPDX-License-Identifier: Apache-2.0
// A consumer warpgroup: 64 query rows of an item. While the tensor cores multiply the weights of one tile with its
// values, the warpgroup takes the first half of the next tile's exponentials; the second half, which needs the
// registers of those weights, follows. The two warpgroups take turns at issuing, so that one's softmax hides behind the
// other's products.
#pragma once

#include <cute/tensor.hpp>

#include "hopper/softmax.cuh"
#include "hopper/step_mask.cuh"
#include "hopper/tensor_consumer.cuh"

namespace headscope::kernels::hopper {

template <class T>
class Consumer : TensorConsumer<T> {
 public:
  using Element = typename T::Element;

  __device__ Consumer(const typename T::Params& params, SharedStorage<T>& shared, int group)
      : Base(params, shared, group) {}

  __device__ void Run() {
    using namespace cute;
    typename T::MmaQk mma_qk;
    typename T::MmaPv mma_pv;
    auto group_qk = mma_qk.get_slice(group_ * 128);
    auto group_pv = mma_pv.get_slice(group_ * 128);
    Tensor q = make_tensor(make_smem_ptr(reinterpret_cast<Element*>(s_.q)), typename T::LayoutQ{});
    Tensor k = make_tensor(make_smem_ptr(reinterpret_cast<Element*>(s_.k)), typename T::LayoutK{});
    Tensor v = make_tensor(make_smem_ptr(reinterpret_cast<Element*>(s_.v)), typename T::LayoutVt{});
    Tensor q_operand = group_qk.partition_fragment_A(q);  // (mma, m, k, slot)
    Tensor k_operand = group_qk.partition_fragment_B(k);  // (mma, n, k, stage)
    Tensor v_operand = group_pv.partition_fragment_B(v);
    Tensor scores = partition_fragment_C(mma_qk, Shape<Int<kItemRows>, Int<T::kTileColumns>>{});
    Tensor output = partition_fragment_C(mma_pv, Shape<Int<kItemRows>, Int<T::kValueDim>>{});
    // Two score accumulators of 8 columns are the A operand of one product over 16 keys, element for element.
    Tensor weights = make_tensor<Element>(Layout<Shape<Shape<_2, _2, _2>, _1, Int<T::kTileColumns / 16>>>{});
    static_assert(decltype(size(weights))::value == decltype(size(scores))::value);
    SoftmaxState<Element> softmax;
    [[maybe_unused]] RowMaxima maxima;

    auto issue_qk = [&](uint32_t stage) {
      warpgroup_fence_operand(scores);
      warpgroup_arrive();
      mma_qk.accumulate_ = GMMA::ScaleOut::Zero;
      CUTE_UNROLL
      for (int i = 0; i < decltype(size<2>(q_operand))::value; ++i) {
        cute::gemm(mma_qk, q_operand(_, _, i, work_ % T::kQuerySlots), k_operand(_, _, i, stage), scores);
        mma_qk.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
    };
    auto issue_pv = [&](uint32_t stage) {
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
    auto cap_and_mask = [&](uint32_t step, uint32_t flags) {
      if constexpr (T::kHasSoftCap) {
        if (p_.soft_cap > 0.0f) SoftCap(scores, p_.score_scale, p_.soft_cap);
      }
      if ((flags & kStepMasked) != 0) [[unlikely]] {
        MaskScores<T>(scores, s_.steps[step % T::kStepRing], flags, p_.index.rule, row_,
                      FirstPosition(p_, place_) + place_.tile * kItemRows + row_);
      }
    };
    // Largest scores count beside the exponentials: every score is weighed at least once, and what is weighed again
    // changes nothing. At head_dim 64, where exponentials are what a step waits for, they are taken while the values'
    // product goes on; and so where a soft cap may be asked for without them, which one branch a tile then settles.
    constexpr bool kCountsApart = T::kHeadDim == 64 || T::kHasSoftCap;
    const auto count_largest = [&](int i) {
      if constexpr (T::kHasRowMax && !kCountsApart) maxima.Count(i, scores(i), scores(i + 1));
    };
    const auto take_largest = [&] {
      if constexpr (T::kHasRowMax && kCountsApart) {
        if (!T::kHasSoftCap || p_.row_max != nullptr) maxima.Take(scores);
      }
    };
    const auto pack = [&](int i, float low, float high) {
      reinterpret_cast<uint32_t&>(weights(i)) = RoundedPair<Element>(low, high);
    };
    // The exponentials of the first half are taken while the tensor cores still read the weights of the step before, so
    // they stay in registers of their own until that product is done.
    constexpr int kScores = decltype(size(scores))::value;
    constexpr int kEarly = kScores / 2;
    float early[kEarly];
    const auto keep = [&](int i, float low, float high) {
      early[i] = low;
      early[i + 1] = high;
      count_largest(i);
    };
    const auto pack_and_count = [&](int i, float low, float high) {
      pack(i, low, high);
      count_largest(i);
    };
    float sums[4];

    // The first turn is group 0's.
    if (group_ == 1) BarrierArrive(kTurnBarrier, 256);
    uint32_t step = 0;  // whose scores are in work; counted over all items
    bool more = TakePlace();
    uint32_t flags = more ? WaitForKeys(step) : 0;  // of that step
    clear(output);
    issue_qk(step % T::kStages);
    while (more) {
      mma_pv.accumulate_ = GMMA::ScaleOut::Zero;
      softmax = {};
      if constexpr (T::kHasRowMax) maxima = {};
      Ahead ahead = LookAhead(step + 1);
      warpgroup_wait<0>();
      warpgroup_fence_operand(scores);
      Release(s_.k_empty[step % T::kStages]);
      ReleaseQueries(flags);
      cap_and_mask(step, flags);
      take_largest();
      while (true) {
        // Here the shifts are raised: for an item's first step, and whenever the loop below is left for it. That stays
        // out of the loop, and in one place. Warps leave it each for itself, so nothing here may wait for the tensor
        // cores: all warps of a group must come to the same such instruction.
        float correction[2];
        const auto anchor = softmax.Raise(scores, p_.scale_log2, correction);
        // Before an item's first product there is no O: that product overwrites what is left of the item before.
        if (mma_pv.accumulate_ == GMMA::ScaleOut::One) {
          CUTE_UNROLL
          for (int i = 0; i < decltype(size(output))::value; ++i) output(i) *= correction[i / 2 % 2];
        }
        if (softmax.IsEnormous()) [[unlikely]] {
          softmax.WeighFrom(anchor, scores, p_.scale_log2, sums, pack_and_count);
        } else {
          softmax.template Weigh<0, kScores>(scores, p_.scale_log2, sums, pack_and_count);
        }
        softmax.Add(sums);
        // The O of the item before has left meanwhile.
        if constexpr (!T::kOutputApart) FreeQuerySlot();
        // From here on the weights of `step` are ready and wait for their values; the scores of the step behind it are
        // next.
        bool fits = true;
        while ((flags & kStepLast) == 0) {
          const uint32_t previous_flags = flags;
          flags = WaitForKeys(step + 1, ahead);
          BarrierSync(kTurnBarrier + group_, 256);
          issue_qk((step + 1) % T::kStages);
          WaitForValues(step, previous_flags);
          issue_pv(step % T::kStages);
          BarrierArrive(kTurnBarrier + 1 - group_, 256);
          warpgroup_wait<1>();
          warpgroup_fence_operand(scores);
          ++step;
          Release(s_.k_empty[step % T::kStages]);
          ReleaseQueries(flags);
          cap_and_mask(step, flags);
          ahead = LookAhead(step + 1);
          softmax.template Weigh<0, kEarly>(scores, p_.scale_log2, sums, keep);
          // Something that needs this half, so that the compiler does not move it behind the wait.
          fits = softmax.Fits(sums);
          if (!fits) [[unlikely]]
            __nanosleep(0);
          take_largest();
          warpgroup_wait<0>();
          warpgroup_fence_operand(output);
          ReleaseValues(step - 1);
          if (!fits) [[unlikely]]
            break;
          CUTE_UNROLL
          for (int i = 0; i < kEarly; i += 2) pack(i, early[i], early[i + 1]);
          softmax.template Weigh<kEarly, kScores>(scores, p_.scale_log2, sums, pack_and_count);
          fits = softmax.Fits(sums);
          if (!fits) [[unlikely]]
            break;
          softmax.Add(sums);
        }
        if (fits) break;
      }
      // The first product of the next item follows this one's last, so that the tensor cores work while O leaves.
      WaitForValues(step, flags);
      issue_pv(step % T::kStages);
      const ItemPlace finished = place_;
      const uint32_t finished_slot = work_ % T::kQuerySlots;
      ++work_;
      more = TakePlace();
      if (more) flags = WaitForKeys(step + 1);
      // Behind the last item it multiplies what is left in shared memory, and nobody looks at the outcome.
      issue_qk((step + 1) % T::kStages);
      warpgroup_wait<1>();
      warpgroup_fence_operand(output);
      ReleaseValues(step);
      ++step;
      if constexpr (T::kHasRowMax) {
        if (!T::kHasSoftCap || p_.row_max != nullptr) {
          Base::WriteLargest(p_, Base::Whole(finished, finished_slot), maxima, p_.scale_log2);
        }
      }
      Finish(finished, finished_slot, softmax, output);
    }
    warpgroup_wait<0>();
    if constexpr (T::kOutputApart) {
      WaitForOutput();
    } else {
      FreeQuerySlot();
    }
  }

 private:
  using Base = TensorConsumer<T>;
  using Base::Finish, Base::FreeQuerySlot, Base::WaitForValues;
  using Base::group_, Base::lane_, Base::p_, Base::part_, Base::place_, Base::row_, Base::s_, Base::work_;
  using Base::LookAhead, Base::Release, Base::ReleaseValues, Base::TakePlace, Base::WaitForKeys, Base::WaitForOutput;
  using typename Base::Ahead;

  // Behind a step's scores: where the next item's queries come to this place, they may, if these scores were the last.
  __device__ void ReleaseQueries(uint32_t flags) {
    if constexpr (T::kOutputApart) {
      if ((flags & kStepLast) != 0) Release(s_.q_empty[part_][work_ % T::kQuerySlots]);
    }
  }
};

}  // namespace headscope::kernels::hopper
