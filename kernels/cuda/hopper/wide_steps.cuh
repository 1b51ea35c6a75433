// SPDX-License-Identifier: Apache-2.0
// How wide kernels divide their work, and the steps of an item. They follow from its place, so that the scheduler and
// the consumers each know them for themselves.
#pragma once

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// Three groups take threads of few registers, which work on one piece of 64 keys at a time.
struct WideShape : BlockShape<3, 32, 160> {
  static constexpr uint32_t kStepReaders = kLoaderWarps;  // consumers know the steps for themselves
  static constexpr int kTileColumns = 128;
  static constexpr int kPieceColumns = 64;
  static constexpr int kPieces = kTileColumns / kPieceColumns;  // of a step
};

// The first keys, those on the diagonal, and then all others: run_walker.cuh says why.
struct WideSteps {
  int lead;    // 1 where the first keys are not on the diagonal, else 0
  int whole;   // tiles that all rows keep
  int masked;  // those on the diagonal
  int end;     // of the item's keys

  __device__ int Count() const { return whole + masked; }
  __device__ bool IsMasked(int step) const {
    return static_cast<unsigned>(step - lead) < static_cast<unsigned>(masked);
  }
  // Which tile of keys a step has.
  __device__ int Tile(int step) const {
    if (IsMasked(step)) return whole + step - lead;
    return step < lead ? 0 : step - masked;
  }
};

template <class T>
__device__ WideSteps StepsOf(const KernelParams& p, const ItemPlace& place) {
  const int first_position = p.index.first_position + place.tile * T::kRows;
  WideSteps steps;
  steps.end = min(first_position + T::kRows, p.index.seq_k);
  steps.whole = (first_position + 1) / T::kTileColumns;
  steps.lead = min(steps.whole, 1);
  steps.masked = (steps.end + T::kTileColumns - 1) / T::kTileColumns - steps.whole;
  return steps;
}

}  // namespace headscope::kernels::hopper
