// SPDX-License-Identifier: Apache-2.0
// Where the parts of the canvas lie: title, map, axes, profiles, colour bar, caption. Logical pixels; pure.
#pragma once

#include <cstdint>

#include "view_transform.h"

namespace headscope::ui {

struct CanvasLayout {
  PixelRect title;  // along the upper edge; height 0 without one
  PixelRect map;
  PixelRect column_axis;     // above the map: key tokens
  PixelRect row_axis;        // left of it: query tokens
  PixelRect steps;           // below it: what each decode step keeps
  PixelRect column_profile;  // below that
  PixelRect row_profile;     // right of it
  PixelRect color_bar;       // at the right edge, or the lower one
  bool bar_lies = false;     // at the lower one
  PixelRect caption;         // along the lower edge; height 0 without one
  PixelRect panel;           // what PanelPlace says; width 0 where it has no place of its own
};

// Where the method's panel has room of its own.
enum class PanelPlace {
  kNone,    // it is hidden, or lies over the map because somebody put it there
  kBeside,  // right of the colour bar
  kStrip,   // rolled up to its title, above the keys' axis
};
inline constexpr double kPanelWidth = 318;

// What else than map, axes and colour bar wants room.
struct CanvasParts {
  bool profiles = false;
  bool steps = false;
  // Of a picture in a file: lines of what stands under its title and of what stands under the map. 0: of the window,
  // which has neither.
  int32_t source_lines = 0, legend_lines = 0;
  PanelPlace panel = PanelPlace::kNone;
  double aspect = 1;  // of the whole map: columns by rows, more than 1 where only the last queries were recorded
};

inline constexpr double kCaptionLetters = 15, kCaptionLine = 17, kCaptionMargin = 6;  // pixels
// A canvas too small for a map gets a map of width or height 0, which nothing is drawn in.
CanvasLayout LayOutCanvas(double width, double height, const CanvasParts& parts);
// Whether a panel beside the map leaves it most of the square that it would have without, or makes the whole map no
// smaller than a panel does that is rolled up above it.
bool HasRoomForPanel(double width, double height, CanvasParts parts);

}  // namespace headscope::ui
