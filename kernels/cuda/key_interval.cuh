// SPDX-License-Identifier: Apache-2.0
// Which keys of a run a query row keeps: the device's form of ElementRule and the half flags.
#pragma once

#include <cstdint>

#include "kernels/sparse_index.h"

namespace headscope::kernels::cuda {

// Local key j of a run (column = run.start + j) is kept when j < end and (j >= begin or j < sinks_end).
struct KeyInterval {
  int32_t begin;
  int32_t end;
  int32_t sinks_end;

  // Without short circuits: selects instead of branches.
  __device__ bool Keeps(int32_t j) const { return (j < end) & ((j >= begin) | (j < sinks_end)); }
};

// `upper`: the row lies in the first half of its tile. A row that the run does not belong to gets an empty interval.
__device__ inline KeyInterval KeptKeys(const ElementRule& rule, KeyRun run, int32_t position, bool upper) {
  KeyInterval kept{0, run.Length(), 0};
  if (run.Partial() && rule.kind != MaskKind::kNone) {
    kept.end = min(kept.end, position - run.start + 1);
    if (rule.kind == MaskKind::kCausalWindow) {
      // Not below 0 in between: a window may be as long as 2^31 - 1.
      kept.begin = max(position - rule.window + 1, 0) - run.start;
      kept.sinks_end = rule.num_sinks - run.start;
    }
  }
  const uint32_t other_half = upper ? kRunLowerHalf : kRunUpperHalf;
  if ((run.Flags() & other_half) != 0) kept.end = 0;
  return kept;
}

}  // namespace headscope::kernels::cuda
