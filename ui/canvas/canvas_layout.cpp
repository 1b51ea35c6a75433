// SPDX-License-Identifier: Apache-2.0
#include "canvas_layout.h"

#include <algorithm>
#include <cmath>

namespace headscope::ui {

namespace {

constexpr double kRowAxisWidth = 104;
constexpr double kColumnAxisHeight = 40;
constexpr double kProfileSize = 52;
// Of the room that a square map leaves beside it, pixels or a share of the map's width, whichever is more.
constexpr double kMostRowProfile = 160, kMostRowProfileShare = 0.5;
constexpr double kMostLead = 0.2;     // of the room's width, left of the axis of a map that stands in its middle
constexpr double kProfileWords = 14;  // by which they are wider than the curve of the rows
constexpr double kStepsHeight = 66;
constexpr double kColorBarWidth = 70;   // bar, digits and unit
constexpr double kLyingBarHeight = 34;  // with its digits, and the room above it
constexpr double kTitleHeight = 34;     // a large line
constexpr double kGap = 6;
constexpr double kMostCaption = 0.4;     // of a picture's height
constexpr double kLeastMap = 120;        // pixels: a smaller map takes the room of what stands beside it
constexpr double kPanelStrip = 26;       // a title's height
constexpr double kLeastShare = 0.75;     // of the square map's side, beside a panel
constexpr double kLeastMapBeside = 300;  // pixels of it
constexpr double kLeastPanel = 240;      // pixels of its height, beside a map that is smaller than that

// Of the whole map, as large as it fits into the room: one scale serves both of its axes.
double FittedWidth(const PixelRect& room, double aspect) {
  return std::min(room.width, room.height * aspect);
}

}  // namespace

CanvasLayout LayOutCanvas(double width, double height, const CanvasParts& parts) {
  const bool captions = parts.source_lines > 0;
  const double title_height = captions ? kTitleHeight + kCaptionLine * parts.source_lines : 0;
  // Of a picture too small for its words the map remains, and not the last of them.
  const double caption_height =
      captions ? std::min(kCaptionLine * parts.legend_lines + 2 * kGap, kMostCaption * height) : 0;
  const double right = width - (parts.panel == PanelPlace::kBeside ? kPanelWidth + kGap : 0);
  const double strip = parts.panel == PanelPlace::kStrip ? kPanelStrip : 0;
  const double steps = parts.steps ? kStepsHeight + kGap : 0;
  CanvasLayout layout;
  layout.map.x = kRowAxisWidth;
  layout.map.y = title_height + strip + kColumnAxisHeight;
  // Of the map and what stands beside and below it. A picture in a file has all of it, whatever its size.
  const double wide = right - kRowAxisWidth - kGap, high = height - layout.map.y - steps - caption_height - kGap;
  constexpr double kProfile = kProfileSize + kGap;
  const bool rows = parts.profiles && (captions || wide - kProfile - kColorBarWidth >= kLeastMap);
  const bool columns = parts.profiles && (captions || high - kProfile >= kLeastMap);
  const bool bar = captions || wide - (rows ? kProfile : 0) - kColorBarWidth >= kLeastMap;
  const double without_bar = wide - (rows ? kProfile : 0);
  layout.map.height = std::max(0.0, high - (columns ? kProfile : 0));
  // Of a place that is higher than wide, such as a half of a split window, a square map leaves the lower part empty:
  // the bar lies there, and the map has its width.
  layout.bar_lies = !captions && without_bar >= kLeastMap && without_bar <= layout.map.height - kLyingBarHeight;
  if (layout.bar_lies) layout.map.height -= kLyingBarHeight;
  const double beside = !layout.bar_lies ? (bar ? kColorBarWidth : 0) : rows ? kProfileWords : 0;
  layout.map.width = std::max(0.0, without_bar - beside);
  // Of a low, wide place a square map leaves the right part empty: the curve of the rows is drawn larger in it.
  const double fitted = FittedWidth(layout.map, parts.aspect);
  double spare = captions ? 0 : layout.map.width - fitted;
  const double row_profile =
      rows ? std::min(kProfileSize + spare, std::max(kMostRowProfile, kMostRowProfileShare * fitted)) : kProfileSize;
  layout.map.width -= row_profile - kProfileSize;
  spare -= row_profile - kProfileSize;
  // Of what is left after that, as on a screen much wider than high, half stands on either side. The half on the right
  // remains the map's: what is zoomed into has it.
  const double lead = std::floor(std::max(0.0, std::min(spare / 2, kMostLead * wide)));
  layout.map.x += lead;
  layout.map.width -= lead;
  layout.column_axis = {layout.map.x, title_height + strip, layout.map.width, kColumnAxisHeight};
  layout.row_axis = {lead, layout.map.y, kRowAxisWidth, layout.map.height};
  if (parts.steps) layout.steps = {layout.map.x, layout.map.bottom() + kGap, layout.map.width, kStepsHeight};
  if (columns)
    layout.column_profile = {layout.map.x, layout.map.bottom() + steps + kGap, layout.map.width, kProfileSize};
  if (rows) layout.row_profile = {layout.map.right() + kGap, layout.map.y, row_profile, layout.map.height};
  if (layout.bar_lies) {
    const double above = columns ? layout.column_profile.bottom() : layout.map.bottom() + steps;
    layout.color_bar = {layout.map.x, above + kGap, layout.map.width, kLyingBarHeight - kGap};
  } else if (bar) {
    layout.color_bar = {right - kColorBarWidth, layout.map.y, kColorBarWidth, layout.map.height};
  }
  if (parts.panel == PanelPlace::kBeside) layout.panel = {right, kGap, kPanelWidth, std::max(0.0, height - 2 * kGap)};
  // Where the canvas is narrower than it, its title has its beginning, with the arrow that opens it.
  if (parts.panel == PanelPlace::kStrip)
    layout.panel = {std::max(kGap, right - kPanelWidth - kGap), 2, kPanelWidth, kPanelStrip - 4};
  if (captions) {
    const double line = std::max(0.0, width - 2 * kCaptionMargin);
    layout.title = {kCaptionMargin, kGap, line, title_height - kGap};
    layout.caption = {kCaptionMargin, height - caption_height + kGap, line, std::max(0.0, caption_height - kGap)};
  }
  return layout;
}

bool HasRoomForPanel(double width, double height, CanvasParts parts) {
  const auto map_with = [&](PanelPlace panel) {
    parts.panel = panel;
    return LayOutCanvas(width, height, parts).map;
  };
  const auto side = [](const PixelRect& map) { return std::min(map.width, map.height); };
  const PixelRect beside = map_with(PanelPlace::kBeside);
  if (side(beside) >= kLeastMapBeside) return side(beside) >= kLeastShare * side(map_with(PanelPlace::kNone));
  // A low, wide place: what the panel takes there a square map leaves empty, and rolled up above the map it would take
  // of its height.
  return height >= kLeastPanel && side(beside) > 0 &&
         FittedWidth(beside, parts.aspect) >= FittedWidth(map_with(PanelPlace::kStrip), parts.aspect);
}

}  // namespace headscope::ui
