// SPDX-License-Identifier: Apache-2.0
// A head's map with its colours chosen and its axes laid out, before anything paints it: SVG and cairo paint the
// same.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
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

// A stretch of an axis, 0..1 from its upper or left end.
struct MapStretch {
  double begin = 0, end = 0;
};

// The curves beside a map.
struct MapCurves {
  std::vector<double> keys, rows;  // a bar's length per texel column and row, 0..1; NaN: there is none
  std::vector<double> kept;        // beside the rows' bars: the least that a method keeps of a texel row; NaN: nothing
  std::array<std::string, 3> key_marks;  // what the keys' bars are at no length, at half and at all of it
  std::string key_text, row_text;        // what they show
};

// A lane for each step of a decode method, below the map: what it keeps of the keys that it sees.
struct MapLanes {
  struct Lane {
    MapStretch attended;
    std::vector<MapStretch> kept;
  };
  std::vector<Lane> lanes;          // the first step's is the upper one; stretches lie along the keys' axis, in view
  std::vector<std::string> labels;  // lines: "kept by", "16 queries,", "4080", "to 4095"
};

struct HeadMap {
  MapCaption caption;
  Ground ground;
  int64_t num_rows = 0, num_columns = 0;  // texels
  std::vector<Rgb> texels;                // [num_rows, num_columns]
  std::vector<bool> hatched;              // where there are no pairs, whatever texels has
  // The colour bar; without marks there is none, and `swatches` say what the colours mean.
  const Palette* palette = nullptr;
  std::array<std::string, 2> bar_title;
  std::vector<MapMark> bar_marks;
  std::vector<MapSwatch> swatches;
  NamedDevice device = NamedCpu();
  // What the axes span, and the token of each query in view.
  int64_t row_begin = 0, column_begin = 0, column_end = 0;
  std::vector<int32_t> row_positions;
  // A task's answer along the keys' and along the queries' axis.
  std::vector<MapStretch> key_answers, row_answers;
  std::optional<MapCurves> curves;
  std::optional<MapLanes> lanes;

  // At most about so many marks; the row's are labelled by the query's token.
  std::vector<MapMark> ColumnMarks(int most) const;
  std::vector<MapMark> RowMarks(int most) const;
  // The colour of a pixel of a picture of this size: a texel may be several pixels wide.
  Rgb PixelAt(int64_t x, int64_t y, int64_t width, int64_t height) const {
    const auto texel = static_cast<size_t>(y * num_rows / height * num_columns + x * num_columns / width);
    if (!hatched[texel]) return texels[texel];
    constexpr int64_t kPeriod = 12;  // pixels, as the window's shader has it (ui/canvas/map_shader.h)
    return (x - y) % kPeriod == 0 ? ground.stripe : ground.hatch;
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
