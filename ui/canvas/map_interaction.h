// SPDX-License-Identifier: Apache-2.0
// What the mouse does on the map, read from ImGui's state so that the panel over it comes first: drag pans, the wheel
// zooms about the pointer (Ctrl finer, Shift faster), Shift+drag or the right button zooms to a rectangle, a double
// click zooms in, a click marks a score, and the right button without a drag asks for a menu. Pressed on the small map
// in the corner, it moves the view there; on a curve beside the map, it points at a key or a query.
#pragma once

#include <optional>
#include <vector>

#include "view_transform.h"

namespace headscope::ui {

// What lies on and beside the map and takes the mouse for itself; of no size: it is not there.
struct MapSurroundings {
  PixelRect minimap, column_profile, row_profile;
  std::vector<PixelRect> pins;  // of bookmarks
};

class MapInteraction {
 public:
  // Applies one frame's mouse to the view. Between ImGui::NewFrame and Render. True when the view changed.
  bool Update(ViewTransform& view, const MapSurroundings& around);

  // A press on a curve in the last Update, in pixels along it; at most one of the two.
  const std::optional<double>& pressed_column_x() const { return pressed_column_x_; }
  const std::optional<double>& pressed_row_y() const { return pressed_row_y_; }

  // The pin under the pointer, as an index; and whether it was pressed in the last Update.
  const std::optional<size_t>& pointed_pin() const { return pointed_pin_; }
  bool pin_pressed() const { return pin_pressed_; }

  // The left button went down in the last Update, anywhere: for the first time, or on the map as a double click, which
  // has zoomed.
  bool pressed() const { return pressed_; }
  bool double_clicked() const { return double_clicked_; }

  // The button came up where it went down in the last Update: the left one marks what is there, the right one asks what
  // can be done with it. The second press of a double click is neither.
  bool clicked() const { return clicked_; }
  bool menu_wanted() const { return menu_wanted_; }

  // The rectangle being dragged out, in pixels.
  const std::optional<PixelRect>& selection() const { return selection_; }
  bool dragging() const { return panning_ || in_minimap_ || selection_.has_value(); }
  void Cancel();

 private:
  bool panning_ = false, in_minimap_ = false;
  std::optional<double> pressed_column_x_, pressed_row_y_;
  std::optional<size_t> pointed_pin_;
  bool pin_pressed_ = false, clicked_ = false, menu_wanted_ = false, pressed_ = false, double_clicked_ = false;
  double selection_x_ = 0, selection_y_ = 0;  // where it began
  int selection_button_ = 0, panning_button_ = 0;
  std::optional<PixelRect> selection_;
};

}  // namespace headscope::ui
