// SPDX-License-Identifier: Apache-2.0
// Tiles of a head's attention map, and how pixels, tokens and levels relate. Pure functions, tested without a display.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

inline constexpr int32_t kTileSize = 256;

enum class TileReduction : uint8_t { kMax = 0, kMean = 1 };

// Tile (x, y) of level L covers key columns [x * 256 * 2^L, ..) and query rows [y * 256 * 2^L, ..); one texel stands
// for 2^L x 2^L scores. Rows are *recorded query rows* (equal to token positions when all rows were recorded).
struct TileKey {
  HeadId head;
  TileReduction reduction = TileReduction::kMax;
  int32_t level = 0;
  int32_t x = 0, y = 0;
  friend constexpr auto operator<=>(const TileKey&, const TileKey&) = default;
};

struct TileData {
  TileKey key;
  // [256, 256] log2 of the attention probability (max or mean over the texel's causal scores; the mean is taken on p,
  // then logged). -inf where the texel has no causal score or lies outside the map.
  std::vector<float> log2_p;
  // Of a few of each texel's rows, to be replaced: the maximum may be too small, the mean is an estimate.
  bool preview = false;
};
using TilePtr = std::shared_ptr<const TileData>;

// Mask overlay on the same grid: share of the texel's attended pairs (causal, inside the model's window) that the index
// keeps, 0..255; 0 where there is none.
struct MaskTile {
  TileKey key;
  std::vector<uint8_t> kept;
};
using MaskTilePtr = std::shared_ptr<const MaskTile>;

// Smallest level at which one texel is at least about one device pixel; clamped to [0, MaxLevel].
int32_t LevelForZoom(double scores_per_pixel, int64_t num_rows, int64_t num_columns);
int32_t MaxLevel(int64_t num_rows, int64_t num_columns);  // the level at which one tile covers the whole map

}  // namespace headscope::analysis
