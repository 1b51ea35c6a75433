// SPDX-License-Identifier: Apache-2.0
#include "figures/kernel_tiles.h"

#include <algorithm>

namespace headscope::analysis {
namespace {

constexpr int32_t kTile = 64;  // rows of a tile, and keys that a kernel gathers at once

int64_t InWholeTiles(int64_t columns) {
  return (columns + kTile - 1) / kTile * kTile;
}

// Keys that some row of [begin, end), which lie in one half of a tile of the index (or in a tile of kTile rows), keeps.
int64_t KeysOfRows(const kernels::SparseIndexView& index, int32_t begin, int32_t end) {
  const int32_t tile = begin / index.tile_rows;
  const uint32_t other_half = index.tile_rows == kTile          ? 0u
                              : begin % index.tile_rows < kTile ? uint32_t{kernels::kRunLowerHalf}
                                                                : uint32_t{kernels::kRunUpperHalf};
  const int64_t list = index.ListId(0, 0, tile);
  const int64_t first = index.first_position + begin, last = index.first_position + end - 1;
  int64_t keys = index.column_count[list];
  for (int64_t at = index.run_begin[list]; at < index.run_begin[list] + index.run_count[list]; ++at) {
    const kernels::KeyRun& run = index.runs[at];
    if ((run.Flags() & other_half) != 0) continue;
    if (!run.Partial() || index.rule.kind == kernels::MaskKind::kNone) {
      keys += run.Length();
      continue;
    }
    // Of a partial run what the rule lets some row see: up to the last row, and back to the first row's window.
    const int64_t run_end = std::min<int64_t>(run.End(), last + 1);
    int64_t run_begin = run.start;
    if (index.rule.kind == kernels::MaskKind::kCausalWindow) {
      const int64_t sinks = std::clamp<int64_t>(index.rule.num_sinks, run_begin, std::max<int64_t>(run_begin, run_end));
      keys += sinks - run_begin;
      run_begin = std::max(sinks, first - index.rule.window + 1);
    }
    keys += std::max<int64_t>(0, run_end - run_begin);
  }
  return keys;
}

}  // namespace

double ComputedShare(const HeadTensors& head, const kernels::SparseIndexView& index) {
  int64_t computed = 0, dense = 0;
  for (int32_t begin = 0; begin < index.seq_q; begin += kTile) {
    const int32_t end = std::min(begin + kTile, index.seq_q);
    const int64_t seen = head.AttendedColumns(end - 1).end - head.AttendedColumns(begin).begin;
    computed += (end - begin) * InWholeTiles(KeysOfRows(index, begin, end));
    dense += (end - begin) * InWholeTiles(seen);
  }
  return static_cast<double>(computed) / static_cast<double>(dense);
}

}  // namespace headscope::analysis
