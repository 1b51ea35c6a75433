// SPDX-License-Identifier: Apache-2.0
#include "search/kernel_work.h"

#include <algorithm>

namespace headscope::analysis {
namespace {

constexpr int64_t kEdge = 64;

int64_t WholeTiles(int64_t count) {
  return (count + kEdge - 1) / kEdge * kEdge;
}

// Keys that a block of rows computes of one list's runs, without those of the `other` half of the tile.
int64_t KeysOfRuns(const kernels::KeyRun* runs, int32_t count, uint32_t other) {
  int64_t keys = 0, begin = 0, end = 0;
  for (int32_t i = 0; i < count; ++i) {
    if ((runs[i].Flags() & other) != 0) continue;
    // Runs that touch, such as the two parts of one that the diagonal cuts, are one range.
    if (runs[i].start != end) {
      keys += WholeTiles(end - begin);
      begin = runs[i].start;
    }
    end = runs[i].End();
  }
  return keys + WholeTiles(end - begin);
}

}  // namespace

int64_t PairsInKernel(const kernels::SparseIndexView& index) {
  const bool has_halves = index.tile_rows > kEdge;
  int64_t pairs = 0;
  for (int64_t list = 0; list < index.NumLists(); ++list) {
    const auto tile = static_cast<int32_t>(list % index.NumRowTiles());
    const int32_t rows = std::min(index.tile_rows, index.seq_q - tile * index.tile_rows);
    const kernels::KeyRun* const runs = index.runs + index.run_begin[list];
    const int64_t columns = WholeTiles(index.column_count[list]);
    for (const bool lower : {false, true}) {
      if (lower && (!has_halves || rows <= kEdge)) continue;
      const uint32_t other_half = lower ? kernels::kRunUpperHalf : kernels::kRunLowerHalf;
      pairs += kEdge * (KeysOfRuns(runs, index.run_count[list], has_halves ? other_half : 0) + columns);
    }
  }
  return pairs;
}

}  // namespace headscope::analysis
