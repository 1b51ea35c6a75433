// SPDX-License-Identifier: Apache-2.0
// Where the parts of a drawn map lie, in points: for every painter whose letters stay letters. A painter has Fill,
// Line, Text (at a baseline), TextUpwards (about a middle) and Image (pixels that stay pixels).
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
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
inline constexpr double kMapTitleSize = 11, kMapTextSize = 8;  // letters, in points

// Where everything lies. The map begins and ends between pixels of a .png.
struct MapPage {
  double width = 0, height = 0;
  double title_size = kMapTitleSize;
  std::vector<std::string> source, legend;  // in lines
  MapArea map, bar;
  MapArea keys, rows;  // the curves; empty: there are none
  MapArea lanes;       // of a decode method's steps; empty: it is none
  double axis = 0;     // the y of the keys' axis
  double legend_top = 0;
};

inline MapPage LayOutMapPage(const HeadMap& map, int32_t width, int32_t height) {
  // Room for the widest labels, whatever a viewer's letters are; a small map's words have a page to stand on.
  constexpr double kLeft = 62, kRight = 84, kMargin = 10, kCurve = 26, kLanes = 40, kGap = 4, kLeastWidth = 320;
  constexpr double kLine = 1.5 * kMapTextSize;
  MapPage page;
  const double curve = map.curves ? kCurve + kGap : 0;
  page.width = std::max(kLeft + width / kMapPixelsPerPoint + curve + kRight, kLeastWidth);
  const double text_width = page.width - 2 * kMargin;
  page.title_size = std::clamp(text_width / (0.6 * static_cast<double>(map.caption.title.size())), 5.0, kMapTitleSize);
  page.source = WrapWords(map.caption.source, text_width, kMapTextSize);
  // Title and source, then two lines over the bar.
  const double top = 16 + kLine * static_cast<double>(page.source.size()) + 2 * kLine;
  page.map = {kLeft, top, width / kMapPixelsPerPoint, height / kMapPixelsPerPoint};
  page.axis = page.map.bottom();
  double below = page.map.bottom();
  if (map.lanes) {
    page.lanes = {kLeft, below + kGap, page.map.width, kLanes};
    page.axis = below = page.lanes.bottom();
  }
  if (map.curves) {
    page.rows = {page.map.right() + kGap, top, kCurve, page.map.height};
    page.keys = {kLeft, below + kGap, page.map.width, kCurve};
    page.axis = page.keys.bottom();
  }
  page.bar = {page.map.right() + curve + 2.5 * kGap, top, 9, page.map.height};
  page.legend_top = page.axis + 5 * kMapTextSize;
  for (const std::string& line : map.caption.lines) {
    for (std::string& part : WrapWords(line, text_width, kMapTextSize)) page.legend.push_back(std::move(part));
  }
  page.height = page.legend_top + kLine * static_cast<double>(page.legend.size()) + kMargin / 2;
  return page;
}

// A curve's bars as pixels, from the side at which they begin: upwards of the keys, to the right of the queries.
inline std::vector<Rgb> CurvePixels(const HeadMap& map, const std::vector<double>& bars,
                                    const std::vector<double>& kept, int32_t along, int32_t across) {
  std::vector<Rgb> pixels(static_cast<size_t>(along) * static_cast<size_t>(across), map.ground.paper);
  const auto count = static_cast<int64_t>(bars.size());
  for (int64_t at = 0; at < along; ++at) {
    const auto bar = static_cast<size_t>(at * count / along);
    const double length = std::isnan(bars[bar]) ? 0 : bars[bar] * across;
    const double mark = kept.empty() ? -2 : kept[bar] * (across - 2);
    for (int64_t pixel = 0; pixel < across; ++pixel) {
      const auto place = static_cast<double>(pixel);
      Rgb& color = pixels[static_cast<size_t>(at * across + pixel)];
      if (place + 0.5 <= length) color = map.ground.mass;
      if (place >= mark - 0.5 && place < mark + 1.5) color = map.ground.kept;
    }
  }
  return pixels;
}

// A line of pixels for each step, or several; of more steps than lines are the nearest one's.
inline std::vector<Rgb> LanePixels(const HeadMap& map, int32_t width, int32_t height) {
  const std::vector<MapLanes::Lane>& lanes = map.lanes->lanes;
  std::vector<Rgb> pixels(static_cast<size_t>(width) * static_cast<size_t>(height), map.ground.paper);
  const auto count = static_cast<int64_t>(lanes.size());
  const bool has_gaps = height >= 4 * count;
  for (int64_t y = 0; y < height; ++y) {
    const int64_t number = y * count / height;
    if (has_gaps && (y + 1) * count / height > number && y + 1 < height) continue;
    const auto fill = [&](const MapStretch& stretch, Rgb color) {
      const auto begin = static_cast<int64_t>(stretch.begin * width);
      const auto end = std::max<int64_t>(std::llround(stretch.end * width), begin + 1);
      for (int64_t x = begin; x < std::min<int64_t>(end, width); ++x)
        pixels[static_cast<size_t>(y * width + x)] = color;
    };
    const MapLanes::Lane& lane = lanes[static_cast<size_t>(number)];
    if (lane.attended.begin < lane.attended.end) fill(lane.attended, map.ground.attended);
    for (const MapStretch& kept : lane.kept) fill(kept, map.ground.kept);
  }
  return pixels;
}

template <typename Painter>
void DrawMapLanes(Painter& canvas, const HeadMap& map, const MapPage& page, int32_t width) {
  constexpr double kText = kMapTextSize - 1.5;
  const auto height = static_cast<int32_t>(page.lanes.height * kMapPixelsPerPoint);
  canvas.Image(page.lanes, width, height, LanePixels(map, width, height));
  double y = page.lanes.y + kText;
  for (const std::string& label : map.lanes->labels) {
    canvas.Text(page.lanes.x - 5, y, label, kText, MapAnchor::kRight, map.ground.ink);
    y += 1.35 * kText;
  }
}

template <typename Painter>
void DrawMapCurves(Painter& canvas, const HeadMap& map, const MapPage& page, int32_t width, int32_t height) {
  constexpr double kTick = 3, kThin = 0.6, kText = kMapTextSize - 1.5;
  const Rgb ink = map.ground.ink;
  const MapCurves& curves = *map.curves;
  const auto across = static_cast<int32_t>(page.keys.height * kMapPixelsPerPoint);
  const std::vector<Rgb> upright = CurvePixels(map, curves.keys, {}, width, across);
  std::vector<Rgb> keys;  // the bars stand on the lower edge
  for (int32_t y = across - 1; y >= 0; --y) {
    for (int64_t x = 0; x < width; ++x) keys.push_back(upright[static_cast<size_t>(x * across + y)]);
  }
  canvas.Image(page.keys, width, across, keys);
  canvas.Image(page.rows, across, height, CurvePixels(map, curves.rows, curves.kept, height, across));
  for (size_t i = 0; i < curves.key_marks.size(); ++i) {
    const double y = page.keys.bottom() - page.keys.height * static_cast<double>(i) / 2;
    canvas.Line(page.keys.x - kTick, y, page.keys.x, y, ink, kThin);
    canvas.Text(page.keys.x - kTick - 2, y + 0.35 * kText, curves.key_marks[i], kText, MapAnchor::kRight, ink);
  }
  canvas.Text(page.keys.x + 3, page.keys.y + kText, curves.key_text, kText, MapAnchor::kLeft, ink);
  canvas.Text(page.rows.x, page.rows.y - 6 - 1.25 * kText, "mass", kText, MapAnchor::kLeft, ink);
  canvas.Text(page.rows.x, page.rows.y - 6, "in view", kText, MapAnchor::kLeft, ink);
  for (const double share : {0.0, 0.5, 1.0}) {
    const double x = page.rows.x + page.rows.width * share;
    canvas.Line(x, page.rows.bottom(), x, page.rows.bottom() + kTick, ink, kThin);
  }
  const double below = page.rows.bottom() + kTick + kText;
  canvas.Text(page.rows.x, below, "0", kText, MapAnchor::kCentre, ink);
  canvas.Text(page.rows.right(), below, "1", kText, MapAnchor::kCentre, ink);
  canvas.Text(page.rows.x, below + 1.25 * kText, curves.row_text, kText, MapAnchor::kLeft, ink);
  if (!curves.kept.empty())
    canvas.Text(page.rows.x, below + 2.5 * kText, "kept", kText, MapAnchor::kLeft, map.ground.kept);
}

template <typename Painter>
void DrawMapOn(Painter& canvas, const HeadMap& map, const MapPage& page, int32_t width, int32_t height) {
  constexpr double kText = kMapTextSize, kGap = 4, kTick = 3, kThin = 0.6, kMargin = 10, kAnswer = 1.5;
  const Rgb ink = map.ground.ink;
  const MapArea& area = page.map;
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
  canvas.Fill({0, 0, page.width, page.height}, map.ground.paper);
  const auto lines = [&](const std::vector<std::string>& texts, double y) {
    for (const std::string& text : texts) {
      canvas.Text(kMargin, y, text, kText, MapAnchor::kLeft, ink);
      y += 1.5 * kText;
    }
  };
  canvas.Text(kMargin, 14, map.caption.title, page.title_size, MapAnchor::kLeft, ink);
  lines(page.source, 14 + 1.5 * kText);
  canvas.Image(area, width, height, pixels);
  if (map.lanes) {
    DrawMapLanes(canvas, map, page, width);
    frame(page.lanes);
  }
  if (map.curves) {
    DrawMapCurves(canvas, map, page, width, height);
    frame(page.keys);
    frame(page.rows);
  }
  frame(area);
  for (const MapStretch& answer : map.key_answers) {
    canvas.Fill({area.x + answer.begin * area.width, area.y - kAnswer,
                 std::max(kAnswer, (answer.end - answer.begin) * area.width), kAnswer},
                map.ground.answer);
  }
  for (const MapStretch& answer : map.row_answers) {
    canvas.Fill({area.x - kAnswer, area.y + answer.begin * area.height, kAnswer,
                 std::max(kAnswer, (answer.end - answer.begin) * area.height)},
                map.ground.answer);
  }
  for (const MapMark& mark : map.ColumnMarks(std::max(2, static_cast<int>(area.width / 48)))) {
    const double x = area.x + mark.place * area.width;
    canvas.Line(x, page.axis, x, page.axis + kTick, ink, kThin);
    canvas.Text(x, page.axis + kTick + kText + 1, mark.label, kText, MapAnchor::kCentre, ink);
  }
  canvas.Text(area.x + area.width / 2, page.axis + kTick + 2.5 * kText + 2, kColumnAxisTitle, kText, MapAnchor::kCentre,
              ink);
  for (const MapMark& mark : map.RowMarks(std::max(2, static_cast<int>(area.height / 32)))) {
    const double y = area.y + mark.place * area.height;
    canvas.Line(area.x - kTick, y, area.x, y, ink, kThin);
    canvas.Text(area.x - kTick - 2, y + 0.35 * kText, mark.label, kText, MapAnchor::kRight, ink);
  }
  canvas.TextUpwards(kText + 4, area.y + area.height / 2, kRowAxisTitle, kText, ink);
  lines(page.legend, page.legend_top);
  const MapArea& bar = page.bar;
  for (size_t i = 0; i < map.swatches.size(); ++i) {
    const double y = bar.y + static_cast<double>(i) * 1.8 * kText;
    canvas.Fill({bar.x, y, bar.width, kText}, map.swatches[i].color);
    canvas.Text(bar.x + bar.width + kGap, y + kText - 1, map.swatches[i].label, kText, MapAnchor::kLeft, ink);
  }
  if (map.palette == nullptr) return;
  // Above the mark at its end.
  double above = bar.y - 6;
  for (size_t line = map.bar_title.size(); line-- > 0;) {
    if (map.bar_title[line].empty()) continue;
    canvas.Text(bar.x, above, map.bar_title[line], kText - 1.5, MapAnchor::kLeft, ink);
    above -= 1.25 * (kText - 1.5);
  }
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
