// SPDX-License-Identifier: Apache-2.0
// The queries whose kept mass lies in the brush of the histogram: a tick at the map's left edge, and a faint line over
// their row.
#include <algorithm>
#include <cmath>

#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

void DrawBrush(const CanvasModel& model, const OverlayOptions& options) {
  if (!model.trial().brush() || !model.trial().mask()) return;
  constexpr ImU32 kTick = IM_COL32(255, 120, 60, 255), kLine = IM_COL32(255, 120, 60, 70);
  constexpr double kTickWidth = 7;
  const ViewTransform& view = *options.view;
  const PixelRect& map = view.viewport();
  const ScoreRect visible = view.Visible();
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  PushClip(list, map);
  // A line of pixels shows a brushed query when any of its queries is one: a single row must not hide. Lines that
  // follow each other are one rectangle.
  const auto is_brushed = [&](double y) {
    const auto begin = static_cast<int64_t>(std::floor(std::max(view.YToRow(y), visible.row_begin)));
    const auto end = static_cast<int64_t>(std::ceil(std::min(view.YToRow(y + 1), visible.row_end)));
    for (int64_t row = begin; row < end; ++row) {
      if (model.IsBrushed(row)) return true;
    }
    return false;
  };
  double begin = -1;
  for (double y = std::floor(map.y); y <= map.bottom() + 1; ++y) {
    const bool brushed = y <= map.bottom() && is_brushed(y);
    if (brushed && begin < 0) begin = y;
    if (brushed || begin < 0) continue;
    list->AddRectFilled(Point(map.x, begin), Point(map.right(), y), kLine);
    list->AddRectFilled(Point(map.x, begin), Point(map.x + kTickWidth, y), kTick);
    begin = -1;
  }
  list->PopClipRect();
}

}  // namespace headscope::ui
