// Where the parts of the canvas lie: map, axes, profiles, colour bar. Logical pixels; pure.
#pragma once

#include "view_transform.h"

namespace headscope::ui {

struct CanvasLayout {
  PixelRect map;
  PixelRect column_axis;     // above the map: key tokens
  PixelRect row_axis;        // left of it: query tokens
  PixelRect column_profile;  // below it
  PixelRect row_profile;     // right of it
  PixelRect color_bar;       // at the right edge
  PixelRect caption;         // along the lower edge; height 0 without one
};

// profiles, caption: leave room for them. A canvas too small for a map gets a map of width or height 0, which nothing
// is drawn in.
CanvasLayout LayOutCanvas(double width, double height, bool profiles, bool caption = false);

}  // namespace headscope::ui
