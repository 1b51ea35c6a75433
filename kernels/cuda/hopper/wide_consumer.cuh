// SPDX-License-Identifier: Apache-2.0
// A consumer warpgroup of the wide kernel: 64 of an item's 192 rows. With head_dim 64 exponentials take as long as both
// products, so what counts is that some group always has some to take. Three groups do, which takes threads of few
// registers: so they work on one piece of 64 keys at a time. The tensor cores make its scores and then the output of
// the piece before, and the latter goes on while the exponentials are taken. The groups issue in turn, so that they
// stay apart.
#pragma once

#include <cute/tensor.hpp>

#include "hopper/softmax.cuh"
#include "hopper/tensor_consumer.cuh"

namespace headscope::kernels::hopper {

template <class T>
class WideConsumer : TensorConsumer<T> {
 public:
  using Element = typename T::Element;

  __device__ WideConsumer(const KernelParams& params, SharedStorage<T>& shared, int group)
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
    Tensor k_operand = group_qk.partition_fragment_B(k);  // (mma, n, k, stage and piece)
    Tensor v_operand = group_pv.partition_fragment_B(v);
    Tensor scores = partition_fragment_C(mma_qk, Shape<Int<T::kRows>, Int<T::kPieceColumns>>{});
    Tensor output = partition_fragment_C(mma_pv, Shape<Int<T::kRows>, Int<T::kValueDim>>{});
    // Of either piece of a step: one's are made while the tensor cores read the other's.
    using WeightsLayout = Layout<Shape<Shape<_2, _2, _2>, _1, Int<T::kPieceColumns / 16>>>;
    Tensor first_weights = make_tensor<Element>(WeightsLayout{});
    Tensor second_weights = make_tensor<Element>(WeightsLayout{});
    constexpr int kScores = decltype(size(scores))::value;
    static_assert(decltype(size(first_weights))::value == kScores);
    SoftmaxState<Element> softmax;

    const auto stage_of = [](uint32_t step, int piece) { return step % T::kStages * T::kPieces + piece; };
    const auto issue_qk = [&](uint32_t stage) {
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
    const auto mask = [&](uint32_t step, uint32_t flags, int piece) {
      if ((flags & kStepMasked) != 0) [[unlikely]]
        MaskCausal(scores, step, piece);
    };
    float sums[4];
    const auto weigh = [&](auto& weights) {
      softmax.template Weigh<0, kScores>(scores, p_.scale_log2, sums, Packing(weights));
      const bool fits = softmax.Fits(sums);
      // Something that needs all weights, so that the compiler does not move them behind the wait.
      if (!fits) [[unlikely]]
        __nanosleep(0);
      return fits;
    };
    // Raises the shifts and makes the weights of the scores at hand anew. Nothing may be in flight.
    const auto raise = [&](auto& weights) {
      float correction[2];
      const auto anchor = softmax.Raise(scores, p_.scale_log2, correction);
      // Before an item's first product there is no O: that product overwrites what is left of the item before.
      if (mma_pv.accumulate_ == GMMA::ScaleOut::One) {
        CUTE_UNROLL
        for (int i = 0; i < decltype(size(output))::value; ++i) output(i) *= correction[i / 2 % 2];
      }
      if (softmax.IsEnormous()) [[unlikely]] {
        softmax.WeighFrom(anchor, scores, p_.scale_log2, sums, Packing(weights));
      } else {
        softmax.template Weigh<0, kScores>(scores, p_.scale_log2, sums, Packing(weights));
      }
    };

    // The first turn is group 0's.
    if (group_ == T::kGroups - 1) BarrierArrive(kTurnBarrier, 256);
    const auto take_turn = [&] { BarrierSync(kTurnBarrier + group_, 256); };
    const auto pass_turn = [&] { BarrierArrive(kTurnBarrier + (group_ + 1) % T::kGroups, 256); };
    uint32_t step = 0;  // counted over all items
    bool more = TakePlace();
    uint32_t flags = more ? WaitForKeys(step) : 0;  // of `step`
    clear(output);
    issue_qk(stage_of(step, 0));
    while (more) {
      mma_pv.accumulate_ = GMMA::ScaleOut::Zero;
      softmax = {};
      warpgroup_wait<0>();
      warpgroup_fence_operand(scores);
      mask(step, flags, 0);
      raise(first_weights);
      softmax.Add(sums);
      FreeQuerySlot();
      while (true) {
        // The first piece's weights are there.
        take_turn();
        issue_qk(stage_of(step, 1));
        WaitForValues(step, flags);
        issue_pv(first_weights, stage_of(step, 0));
        pass_turn();
        warpgroup_wait<1>();
        warpgroup_fence_operand(scores);
        Release(s_.k_empty[step % T::kStages]);
        mask(step, flags, 1);
        const Ahead ahead = LookAhead(step + 1);
        bool fits = weigh(second_weights);
        warpgroup_wait<0>();
        warpgroup_fence_operand(output);
        if (!fits) [[unlikely]]
          raise(second_weights);
        softmax.Add(sums);
        if ((flags & kStepLast) != 0) break;
        flags = WaitForKeys(step + 1, ahead);
        uint32_t next = step + 1;
        // Steps on the diagonal that lie behind all rows of this group.
        while ((flags & (kStepMasked | kStepLast)) == kStepMasked && BehindRows(next)) {
          Release(s_.k_empty[next % T::kStages]);
          WaitForValues(next, flags);
          ReleaseValues(next);
          for (int piece = 0; piece < T::kPieces; ++piece) {
            take_turn();
            pass_turn();
          }
          ++next;
          flags = WaitForKeys(next);
        }
        take_turn();
        issue_qk(stage_of(next, 0));
        issue_pv(second_weights, stage_of(step, 1));
        pass_turn();
        warpgroup_wait<1>();
        warpgroup_fence_operand(scores);
        mask(next, flags, 0);
        fits = weigh(first_weights);
        warpgroup_wait<0>();
        warpgroup_fence_operand(output);
        ReleaseValues(step);
        step = next;
        if (!fits) [[unlikely]]
          raise(first_weights);
        softmax.Add(sums);
      }
      // The first product of the next item follows this one's last, so that the tensor cores work while O leaves.
      issue_pv(second_weights, stage_of(step, 1));
      const ItemPlace finished = place_;
      const uint32_t finished_slot = work_ % T::kQuerySlots;
      ++work_;
      more = TakePlace();
      if (more) flags = WaitForKeys(step + 1);
      // Behind the last item it multiplies what is left in shared memory, and nobody looks at the outcome.
      issue_qk(stage_of(step + 1, 0));
      warpgroup_wait<1>();
      warpgroup_fence_operand(output);
      ReleaseValues(step);
      ++step;
      Finish(finished, finished_slot, softmax, output);
    }
    warpgroup_wait<0>();
    FreeQuerySlot();
  }

 private:
  using Base = TensorConsumer<T>;
  using Base::Finish, Base::FreeQuerySlot, Base::WaitForValues;
  using Base::group_, Base::lane_, Base::p_, Base::place_, Base::row_, Base::s_, Base::work_;
  using Base::LookAhead, Base::Release, Base::ReleaseValues, Base::TakePlace, Base::WaitForKeys;
  using typename Base::Ahead;

  template <class Weights>
  __device__ static auto Packing(Weights& weights) {
    return [&weights](int i, float low, float high) {
      reinterpret_cast<uint32_t&>(weights(i)) = RoundedPair<Element>(low, high);
    };
  }

  // The first key of a step.
  __device__ int StartOf(uint32_t step) const {
    const int start = lane_ == 0 ? s_.steps[step % T::kStepRing].start[0] : 0;
    return __shfl_sync(kAllLanes, start, 0);
  }
  // Whether all of a step's keys lie behind the positions of the group's rows.
  __device__ bool BehindRows(uint32_t step) const {
    return StartOf(step) >= p_.index.first_position + place_.tile * T::kRows + (group_ + 1) * 64;
  }

  // Keys behind a row's position, of a step's piece.
  template <class Scores>
  __device__ void MaskCausal(Scores& scores, uint32_t step, int piece) const {
    const int start = StartOf(step) + piece * T::kPieceColumns;
    // Where the thread's first row ends among the columns that it holds.
    const int end = p_.index.first_position + place_.tile * T::kRows + row_ - start - 2 * (lane_ % 4);
    CUTE_UNROLL
    for (int i = 0; i < decltype(cute::size(scores))::value; ++i) {
      if (i / 4 * 8 + i % 2 > end + i / 2 % 2 * 8) scores(i) = -INFINITY;
    }
  }
};

}  // namespace headscope::kernels::hopper
