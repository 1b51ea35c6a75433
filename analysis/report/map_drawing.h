// SPDX-License-Identifier: Apache-2.0
// Where the parts of a drawn map lie, in points: for every painter whose letters stay letters. A painter has Fill,
// Line, Text (at a baseline), TextUpwards (about a middle) and Image (pixels that stay pixels).
#pragma once

#include <algorithm>
#include <vector>

#include "report/head_map.h"

namespace headscope::analysis {

struct MapArea {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

enum class MapAnchor { kLeft, kCentre, kRight };

inline constexpr double kMapPixelsPerPoint = 2;
// Room for the widest labels, whatever a viewer's letters are.
inline constexpr double kMapLeft = 62, kMapTop = 26, kMapRight = 84, kMapBottom = 34;

inline double MapPageWidth(int32_t width) {
  return kMapLeft + width / kMapPixelsPerPoint + kMapRight;
}
inline double MapPageHeight(int32_t height) {
  return kMapTop + height / kMapPixelsPerPoint + kMapBottom;
}

template <typename Painter>
void DrawMapOn(Painter& canvas, const HeadMap& map, int32_t width, int32_t height) {
  constexpr double kTitle = 11, kLeastTitle = 5, kText = 8, kGap = 4, kTick = 3, kBar = 9, kThin = 0.6;
  const Rgb ink = map.ground.ink;
  const MapArea area{kMapLeft, kMapTop, width / kMapPixelsPerPoint, height / kMapPixelsPerPoint};
  const auto frame = [&](const MapArea& around) {
    canvas.Line(around.x, around.y, around.right(), around.y, ink, kThin);
    canvas.Line(around.x, around.bottom(), around.right(), around.bottom(), ink, kThin);
    canvas.Line(around.x, around.y, around.x, around.bottom(), ink, kThin);
    canvas.Line(around.right(), around.y, around.right(), around.bottom(), ink, kThin);
  };
  std::vector<Rgb> pixels;
  pixels.reserve(static_cast<size_t>(width) * static_cast<size_t>(height));
  for (int32_t y = 0; y < height; ++y) {
    for (int32_t x = 0; x < width; ++x) pixels.push_back(map.PixelAt(x, y, width, height));
  }
  canvas.Fill({0, 0, MapPageWidth(width), MapPageHeight(height)}, map.ground.paper);
  const double room = area.width + kMapRight - kGap;
  // Of a sans serif, whose letters are about 0.6 of its size wide; a viewer may have another one.
  const double title = std::clamp(room / (0.6 * static_cast<double>(map.title.size())), kLeastTitle, kTitle);
  canvas.Text(area.x, area.y - 2 * kGap, map.title, title, MapAnchor::kLeft, ink);
  canvas.Image(area, width, height, pixels);
  frame(area);
  for (const MapMark& mark : map.ColumnMarks(std::max(2, static_cast<int>(area.width / 48)))) {
    const double x = area.x + mark.place * area.width;
    canvas.Line(x, area.bottom(), x, area.bottom() + kTick, ink, kThin);
    canvas.Text(x, area.bottom() + kTick + kText + 1, mark.label, kText, MapAnchor::kCentre, ink);
  }
  canvas.Text(area.x + area.width / 2, area.bottom() + kTick + 2.5 * kText + 2, kColumnAxisTitle, kText,
              MapAnchor::kCentre, ink);
  for (const MapMark& mark : map.RowMarks(std::max(2, static_cast<int>(area.height / 32)))) {
    const double y = area.y + mark.place * area.height;
    canvas.Line(area.x - kTick, y, area.x, y, ink, kThin);
    canvas.Text(area.x - kTick - 2, y + 0.35 * kText, mark.label, kText, MapAnchor::kRight, ink);
  }
  canvas.TextUpwards(kText + 4, area.y + area.height / 2, kRowAxisTitle, kText, ink);
  const double bar_x = area.right() + 2.5 * kGap;
  for (size_t i = 0; i < map.swatches.size(); ++i) {
    const double y = area.y + static_cast<double>(i) * 1.8 * kText;
    canvas.Fill({bar_x, y, kBar, kText}, map.swatches[i].color);
    canvas.Text(bar_x + kBar + kGap, y + kText - 1, map.swatches[i].label, kText, MapAnchor::kLeft, ink);
  }
  if (map.palette == nullptr) return;
  const MapArea bar{bar_x, area.y, kBar, area.height};
  // From the greatest value down, a pixel a colour: one column of an image has no seams.
  const std::vector<Rgb> colors(map.palette->rbegin(), map.palette->rend());
  canvas.Image(bar, 1, static_cast<int32_t>(colors.size()), colors);
  frame(bar);
  for (const MapMark& mark : map.bar_marks) {
    const double y = bar.bottom() - mark.place * bar.height;
    canvas.Line(bar.right(), y, bar.right() + kTick, y, ink, kThin);
    canvas.Text(bar.right() + kTick + 2, y + 0.35 * kText, mark.label, kText, MapAnchor::kLeft, ink);
  }
}

}  // namespace headscope::analysis
