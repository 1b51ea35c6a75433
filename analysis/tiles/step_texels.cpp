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

}  // namespace headscope::analysis
