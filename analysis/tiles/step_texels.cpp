// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "analysis/tiles.h"
#include "tiles/map_texels.h"
#include "tiles/texel_counts.h"

namespace headscope::analysis {

MaskTilePtr ComputeMaskTile(const KeptSteps& steps, const TileKey& key) {
  const int64_t texel_rows = int64_t{1} << key.level;
  const int64_t first_column = int64_t{key.x} * kTileSize * texel_rows;
  auto tile = std::make_shared<MaskTile>();
  tile->key = key;
  tile->kept.assign(size_t{kTileSize} * kTileSize, 255);
  for (int64_t y = 0; y < kTileSize; ++y) {
    const int64_t row = (int64_t{key.y} * kTileSize + y) * texel_rows;
    const int64_t begin = std::max(row, steps.first_row), end = std::min(row + texel_rows, steps.end_row());
    if (begin >= end) continue;
    TexelCounts kept{}, attended{};
    for (int64_t i = begin; i < end; ++i) {
      const KeptStep& step = steps.steps[static_cast<size_t>(i - steps.first_row)];
      AddColumns(step.attended.begin, step.attended.end, first_column, key.level, &attended);
      for (const kernels::ColumnRange& range : step.kept)
        AddColumns(range.begin, range.end, first_column, key.level, &kept);
    }
    for (size_t x = 0; x < kTileSize; ++x)
      tile->kept[static_cast<size_t>(y) * kTileSize + x] = KeptByte(kept[x], attended[x]);
  }
  return tile;
}

MaskTexels CountMaskTexels(const KeptSteps& steps, const TexelEdges& edges) {
  const auto columns = static_cast<size_t>(edges.NumColumns());
  MaskTexels texels;
  texels.kept.resize(static_cast<size_t>(edges.NumRows()) * columns);
  texels.pairs.resize(texels.kept.size());
  for (size_t line = 0; line + 1 < edges.rows.size(); ++line) {
    const int64_t end = std::min(edges.rows[line + 1], steps.end_row());
    for (int64_t row = std::max(edges.rows[line], steps.first_row); row < end; ++row) {
      const KeptStep& step = steps.steps[static_cast<size_t>(row - steps.first_row)];
      ForTexels(edges.columns, step.attended.begin, step.attended.end, [&](size_t texel, int64_t from, int64_t until) {
        texels.pairs[line * columns + texel] += until - from;
      });
      for (const kernels::ColumnRange& range : step.kept)
        ForTexels(edges.columns, range.begin, range.end, [&](size_t texel, int64_t from, int64_t until) {
          texels.kept[line * columns + texel] += until - from;
        });
    }
  }
  return texels;
}

}  // namespace headscope::analysis
