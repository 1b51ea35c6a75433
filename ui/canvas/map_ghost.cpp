// SPDX-License-Identifier: Apache-2.0
// Whose mask the map shows while a run is pointed at, at the map's upper end: it is not the panel's.
#include <string>

#include "analysis/types/number_text.h"
#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

std::string DescribeGhost(const CanvasModel& model) {
  const std::optional<LiveMask>& ghost = model.trial().ghost();
  if (!ghost) return {};
  const MethodTrial::GhostMethod& method = *model.trial().ghost_method();
  return analysis::Format("Run pointed at, kept %.1f %%: ", 100 * ghost->summary.kept_fraction) + method.method +
         (method.parameters.empty() ? "" : " " + method.parameters);
}

void DrawGhost(const CanvasModel& model, const OverlayOptions& options) {
  std::string text = DescribeGhost(model);
  if (text.empty()) return;
  const PixelRect& map = options.view->viewport();
  text = ElidedText(text, map.width - 24);
  const ImVec2 size = TextSize(text);
  const double x = map.x + 12, y = map.y + 10;
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  PushClip(list, map);
  list->AddRectFilled(Point(x - 6, y - 4),
                      Point(x + static_cast<double>(size.x) + 6, y + static_cast<double>(size.y) + 4),
                      IM_COL32(20, 20, 20, 225), 3);
  DrawText(list, x, y, kAccentColor, text);
  list->PopClipRect();
}

}  // namespace headscope::ui
