// SPDX-License-Identifier: Apache-2.0
#include "kernels/index_window.h"

#include <algorithm>

namespace headscope::kernels {
namespace {

// The one rule of the index inside a window.
ElementRule RuleInside(const SparseIndexView& index, int32_t window) {
  ElementRule rule = index.rule;
  if (rule.kind != MaskKind::kCausalWindow || window <= rule.window) return {MaskKind::kCausalWindow, window, 0};
  if (window < index.tile_rows) rule.num_sinks = 0;
  return rule;
}

}  // namespace

SparseIndex CutToWindow(const SparseIndexView& index, int32_t window) {
  SparseIndexBuilder::Shape shape;
  shape.batch = index.batch;
  shape.num_qo_heads = index.num_qo_heads;
  shape.seq_q = index.seq_q;
  shape.seq_k = index.seq_k;
  shape.first_position = index.first_position;
  shape.tile_rows = index.tile_rows;
  shape.rule = RuleInside(index, window);
  SparseIndexBuilder builder(shape);
  const int32_t num_tiles = index.NumRowTiles();
  for (int64_t list = 0; list < index.NumLists(); ++list) {
    const int64_t first_row = list % num_tiles * index.tile_rows;
    const int64_t last_row = std::min<int64_t>(first_row + index.tile_rows, index.seq_q) - 1;
    // The first columns that the tile's first row and its last row see. The builder cuts what lies between them by
    // element; sinks under the index's own rule are not its to cut.
    const int64_t seen_by_first = index.first_position + first_row - window + 1;
    const int64_t seen_by_last = index.first_position + last_row - window + 1;
    const KeyRun* const runs = index.runs + index.run_begin[list];
    for (int32_t i = 0; i < index.run_count[list]; ++i) {
      const KeyRun& run = runs[i];
      if (run.End() <= seen_by_first) continue;
      const uint32_t half = run.Flags() & (kRunUpperHalf | kRunLowerHalf);
      const int64_t sinks_end = std::clamp(shape.rule.num_sinks, run.start, run.End());
      builder.AddRange(std::max<int64_t>(run.start, seen_by_last), sinks_end, half);
      builder.AddRange(sinks_end, run.End(), half);
    }
    const int32_t* const columns = index.columns + index.column_begin[list];
    for (int32_t i = 0; i < index.column_count[list]; ++i) {
      if (columns[i] < (columns[i] < shape.rule.num_sinks ? seen_by_last : seen_by_first)) continue;
      builder.AddColumn(columns[i]);
    }
    builder.FinishList();
  }
  return builder.Build();
}

}  // namespace headscope::kernels
