// SPDX-License-Identifier: Apache-2.0
// A head's map with its colours chosen and its axes laid out, before anything paints it: SVG and cairo paint the
// same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/report.h"
#include "analysis/types/color_map.h"
#include "analysis/types/ground.h"

namespace headscope::analysis {

struct MapMark {
  double place = 0;  // 0..1 along the axis from its upper or left end; along the colour bar from its lower end
  std::string label;
};

struct MapSwatch {
  Rgb color;
  std::string label;
};

struct HeadMap {
  std::string title;
  Ground ground;
  int64_t num_rows = 0, num_columns = 0;  // texels
  std::vector<Rgb> texels;                // [num_rows, num_columns]
  // The colour bar; without marks there is none, and `swatches` say what the colours mean.
  const Palette* palette = nullptr;
  std::vector<MapMark> bar_marks;
  std::vector<MapSwatch> swatches;
  NamedDevice device = NamedCpu();
  // What the axes span, and the token of each query in view.
  int64_t row_begin = 0, column_begin = 0, column_end = 0;
  std::vector<int32_t> row_positions;

  // At most about so many marks; the row's are labelled by the query's token.
  std::vector<MapMark> ColumnMarks(int most) const;
  std::vector<MapMark> RowMarks(int most) const;
  // The colour of a pixel of a picture of this size: a texel may be several pixels wide.
  Rgb PixelAt(int64_t x, int64_t y, int64_t width, int64_t height) const {
    return texels[static_cast<size_t>(y * num_rows / height * num_columns + x * num_columns / width)];
  }
};

inline constexpr char kColumnAxisTitle[] = "key token", kRowAxisTitle[] = "query token";

// Throws as DrawHeadMap.
HeadMap MakeHeadMap(const HeadTensors& head, const RenderSources& sources, const RenderRequest& request);

// `width` and `height` are the map's in pixels, two of which make a point.
void PaintSvg(const HeadMap& map, int32_t width, int32_t height, const std::string& path);
// .pdf or .png, whose pixels are the map's. Throws UsageError where headscope was built without cairo.
void PaintWithCairo(const HeadMap& map, int32_t width, int32_t height, const std::string& path);

}  // namespace headscope::analysis
