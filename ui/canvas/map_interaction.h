// SPDX-License-Identifier: Apache-2.0
// What the mouse does on the map, read from ImGui's state so that the panel over it comes first: drag pans, the wheel
// zooms about the pointer (Ctrl finer, Shift faster), Shift+drag or the right button zooms to a rectangle, a double
// click zooms in.
#pragma once

#include <optional>

#include "view_transform.h"

namespace headscope::ui {

class MapInteraction {
 public:
  // Applies one frame's mouse to the view. Between ImGui::NewFrame and Render. True when the view changed.
  bool Update(ViewTransform& view);

  // The rectangle being dragged out, in pixels.
  const std::optional<PixelRect>& selection() const { return selection_; }
  bool dragging() const { return panning_ || selection_.has_value(); }
  void Cancel();

 private:
  bool panning_ = false;
  double selection_x_ = 0, selection_y_ = 0;  // where it began
  int selection_button_ = 0;
  std::optional<PixelRect> selection_;
};

}  // namespace headscope::ui
