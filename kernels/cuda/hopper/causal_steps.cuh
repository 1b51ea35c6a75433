// SPDX-License-Identifier: Apache-2.0
// The steps of an item whose head keeps all that a causal rule leaves to it. They follow from the item's place, so that
// nobody reads a list for them, and whoever knows the place knows the steps.
#pragma once

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// The first keys, those on the diagonal, and then all others: run_walker.cuh says why.
struct CausalSteps {
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
__device__ CausalSteps StepsOf(const typename T::Params& p, const typename T::Place& place) {
  const int first_position = FirstPosition(p, place) + place.tile * T::kRows;
  CausalSteps steps;
  steps.end = min(first_position + T::kRows, NumKeys(p, place));
  steps.whole = (first_position + 1) / T::kTileColumns;
  steps.lead = min(steps.whole, 1);
  steps.masked = (steps.end + T::kTileColumns - 1) / T::kTileColumns - steps.whole;
  return steps;
}

}  // namespace headscope::kernels::hopper
