// SPDX-License-Identifier: Apache-2.0
// How the consumers that work in pieces go through an item's steps: those that follow from its place, or those that the
// scheduler has made of its lists. Either is a base of PieceConsumer over what depends on the elements' type.
//
// All lanes of a warp call every function together. A step's first piece is masked behind Next(), its second before.
#pragma once

#include "hopper/causal_steps.cuh"
#include "hopper/step_mask.cuh"

namespace headscope::kernels::hopper {

// Every head keeps all that a causal rule leaves to it.
template <class Rows>
class CausalWalk : protected Rows {
 protected:
  using T = typename Rows::KernelTraits;
  using Rows::group_, Rows::lane_, Rows::p_, Rows::place_, Rows::row_, Rows::s_;
  using Rows::Rows;

  // An item, with the step that was awaited last.
  __device__ void Begin() {
    steps_ = StepsOf<T>(p_, place_);
    at_ = 0;
  }
  __device__ bool IsLast() const { return at_ + 1 == steps_.Count(); }
  // Until what there is to know of a step is known, and its keys are there.
  __device__ void Await(uint32_t step) { Rows::WaitTogether(s_.k_full, step); }
  __device__ void AwaitValues(uint32_t step) { Rows::WaitTogether(s_.v_full, step); }
  // The step behind `step`, for which has been waited. Steps on the diagonal that lie behind all rows of this group are
  // passed over.
  __device__ uint32_t Next(uint32_t step) {
    uint32_t next = step + 1;
    ++at_;
    while (steps_.IsMasked(at_) && at_ + 1 < steps_.Count() && BehindRows(steps_.Tile(at_))) {
      Rows::Release(s_.k_empty[next % T::kStages]);
      Rows::WaitTogether(s_.v_full, next);
      Rows::Release(s_.v_empty[next % T::kStages]);
      ++next;
      ++at_;
      Rows::WaitTogether(s_.k_full, next);
    }
    return next;
  }
  template <class Scores>
  __device__ void Mask(Scores& scores, uint32_t, int piece) const {
    if (steps_.IsMasked(at_)) [[unlikely]]
      MaskCausal(scores, steps_.Tile(at_) * T::kTileColumns + piece * T::kPieceColumns);
  }
  // Behind the last product of a step.
  __device__ void LetGo(uint32_t step) { Rows::Release(s_.v_empty[step % T::kStages]); }

 private:
  // Whether all of a tile's keys lie behind the positions of the group's rows.
  __device__ bool BehindRows(int tile) const {
    return tile * T::kTileColumns >= FirstPosition(p_, place_) + place_.tile * T::kRows + (group_ + 1) * 64;
  }

  // Keys behind a row's position, of the piece that begins with key `start`.
  template <class Scores>
  __device__ void MaskCausal(Scores& scores, int start) const {
    // Where the thread's first row ends among the columns that it holds.
    const int end = FirstPosition(p_, place_) + place_.tile * T::kRows + row_ - start - 2 * (lane_ % 4);
    CUTE_UNROLL
    for (int i = 0; i < decltype(cute::size(scores))::value; ++i) {
      if (i / 4 * 8 + i % 2 > end + i / 2 % 2 * 8) scores(i) = -INFINITY;
    }
  }

  CausalSteps steps_{};
  int at_ = 0;  // of them
};

// Steps out of the scheduler's ring.
template <class Rows>
class ListWalk : protected Rows {
 protected:
  using T = typename Rows::KernelTraits;
  using Rows::p_, Rows::place_, Rows::row_, Rows::s_;
  using Rows::Rows;

  __device__ void Begin() { flags_ = next_flags_; }
  __device__ bool IsLast() const { return (flags_ & kStepLast) != 0; }
  __device__ void Await(uint32_t step) { next_flags_ = Rows::WaitForKeys(step); }
  // `step`: what Begin() or Next() gave.
  __device__ void AwaitValues(uint32_t step) { Rows::WaitForValues(step, flags_); }
  __device__ uint32_t Next(uint32_t step) {
    flags_ = next_flags_;
    return step + 1;
  }
  template <class Scores>
  __device__ void Mask(Scores& scores, uint32_t step, int piece) const {
    if ((flags_ & kStepMasked) != 0) [[unlikely]] {
      MaskScores<Piece>(scores, s_.steps[step % T::kStepRing], flags_, p_.index.rule, row_,
                        FirstPosition(p_, place_) + place_.tile * T::kRows + row_, piece * Piece::kSegments);
    }
  }
  __device__ void LetGo(uint32_t step) { Rows::ReleaseValues(step); }

 private:
  struct Piece {
    static constexpr int kSegments = T::kPieceColumns / kSegmentRows;
  };

  uint32_t flags_ = 0, next_flags_ = 0;
};

}  // namespace headscope::kernels::hopper
