// SPDX-License-Identifier: Apache-2.0
// Draws tiles of a map into the bound framebuffer with OpenGL 3.3 core; knows no widget and no ImGui.
//
// A tile is a 256 x 256 texture of log2 p in half floats (about 1 % of p at any depth); range, scale and palette are
// applied in the fragment shader, so that changing them uploads nothing. The mask of kept scores is a second texture:
// what is not kept turns grey and dim, what is kept stays in colour. Scores that do not exist are hatched; an area
// whose own tile is still on its way is drawn from a coarser one under faint stripes.
//
// Everything but the constructor needs an OpenGL context of one share group to be current. When that context goes,
// Release, then Init in the next: textures are made again from the tiles.
#pragma once

#include <QSize>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "analysis/types/color_map.h"
#include "analysis/types/ground.h"
#include "analysis/types/mask_overlap.h"
#include "analysis/types/value_scale.h"
#include "causal_rows.h"
#include "map_comparison.h"
#include "tile_cache.h"
#include "view_transform.h"

namespace headscope::ui {

// Texels of scores that do not exist, and the least value of those that do: both finite in half floats.
inline constexpr float kBlankLog2 = -60000.0f;
inline constexpr float kFloorLog2 = -30000.0f;

// What is uploaded of a tile: kBlankLog2 where no score exists, at least kFloorLog2 elsewhere (a probability of 0 is a
// colour, not a hole).
std::vector<float> EncodeTile(const analysis::TileData& tile, const CausalRows& rows);

// Tiles of two maps over the same area as one: the other's probability less this one's, by EncodeDifferenceLog2.
// kBlankLog2 where no score exists, and in texels with a row at or behind `end_row`, of which the two maps have other
// queries. [256, 256] over the whole area.
inline constexpr int64_t kEveryRow = std::numeric_limits<int64_t>::max();
std::vector<float> EncodeDifference(const TileSample<analysis::TileData>& values,
                                    const TileSample<analysis::TileData>& other, const CausalRows& rows,
                                    int64_t end_row = kEveryRow);
// A signed difference as one number that half floats hold at any depth: log2 of its size, less than which 2^-64 is
// nothing, under the sign of the difference.
inline constexpr float kDifferenceBias = 64;
float EncodeDifferenceLog2(double difference);

struct MapQuad {
  PixelRect destination;  // logical pixels
  TileSample<analysis::TileData> values;
  TileSample<analysis::MaskTile> mask;  // a null tile: nothing is known of the mask there, so it is not applied
  // Of a comparison; a null tile: that part is still on its way, and is drawn without colours.
  TileSample<analysis::MaskPairTile> pair{};
  TileSample<analysis::TileData> other{};
};

struct MapPicture {
  PixelRect clip;     // logical pixels; nothing is drawn outside
  PixelRect hatched;  // the map's area: what no quad covers is hatched
  std::vector<MapQuad> quads;
  bool stale = false;  // it is of the head before: drawn in grey
  Comparison comparison = Comparison::kNone;
  int64_t compared_end_row = kEveryRow;  // of a difference: EncodeDifference's `end_row`
};

struct MapLook {
  const analysis::ColorMap* color_map = &analysis::ColorMaps().front();
  analysis::ValueRange range;
  bool logarithmic = true;
  analysis::Ground ground = analysis::kDarkGround;
  bool lost = false;  // of scores under a mask: the colours show what it leaves out
};

class CanvasRenderer {
 public:
  CanvasRenderer();
  ~CanvasRenderer();  // Release must have run if Init succeeded
  CanvasRenderer(const CanvasRenderer&) = delete;
  CanvasRenderer& operator=(const CanvasRenderer&) = delete;

  // False when the current context is older than OpenGL 3.3 or the shaders do not compile; error() says why.
  bool Init();
  void Release();
  bool ready() const;
  const QString& error() const;

  // Fills the whole framebuffer, opaque. framebuffer_size is in device pixels.
  void Clear(QSize framebuffer_size, const analysis::Ground& ground);
  void Draw(const MapPicture& picture, const MapLook& look, const CausalRows& rows, QSize framebuffer_size,
            double device_pixel_ratio);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headscope::ui
