// SPDX-License-Identifier: Apache-2.0
// The marked score: lines along its row and its column, which leave the score itself and its neighbours to be seen, and
// its two tokens at their ends.
#include <algorithm>

#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

namespace {

constexpr ImU32 kMarkColor = IM_COL32(90, 230, 140, 230);
constexpr ImU32 kMarkGround = IM_COL32(16, 52, 30, 255);
constexpr double kRing = 9;            // pixels
constexpr double kPixelsForEdges = 6;  // of a score: from here on the lines run along its edges
constexpr size_t kMaxTokenBytes = 24;  // a label that is longer names no token any better

std::string Label(const CanvasModel& model, int64_t position) {
  const std::string token = model.TokenText(position);
  const std::string number = std::to_string(position);
  return token.empty() || token.size() > kMaxTokenBytes ? number : number + " “" + token + "”";
}

// On a ground at least `width` wide, which covers the axis' own numbers.
void DrawLabel(ImDrawList* list, double x, double y, double width, const std::string& text) {
  const ImVec2 size = TextSize(text);
  const double right = x + std::max(static_cast<double>(size.x), width) + 3;
  list->AddRectFilled(Point(x - 3, y - 1), Point(right, y + static_cast<double>(size.y) + 1), kMarkGround, 3);
  DrawText(list, x, y, kMarkColor, text);
}

}  // namespace

void DrawMark(const CanvasModel& model, const OverlayOptions& options) {
  const std::optional<MarkedScore>& mark = model.mark();
  const ViewTransform& view = *options.view;
  if (!mark || mark->row >= view.num_rows() || mark->column >= view.num_columns()) return;
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  const PixelRect& map = view.viewport();
  const auto row = static_cast<double>(mark->row), column = static_cast<double>(mark->column);
  const double x = view.ColumnToX(column + 0.5), y = view.RowToY(row + 0.5);
  const bool edges = view.pixels_per_score() >= kPixelsForEdges;
  const double half = edges ? view.pixels_per_score() / 2 : 0;
  PushClip(list, map);
  for (const double side : {-half, half}) {
    list->AddLine(Point(x + side, map.y), Point(x + side, map.bottom()), kMarkColor);
    list->AddLine(Point(map.x, y + side), Point(map.right(), y + side), kMarkColor);
  }
  if (!edges) list->AddCircle(Point(x, y), static_cast<float>(kRing), kMarkColor, 0, 2);
  list->PopClipRect();

  const double line = ImGui::GetFontSize();
  if (x >= map.x && x < map.right()) {
    const std::string text = Label(model, mark->column);
    const auto width = static_cast<double>(TextSize(text).x);
    DrawLabel(list, std::clamp(x - width / 2, map.x, std::max(map.x, map.right() - width)), map.y - line - 5, 0, text);
  }
  if (y >= map.y && y < map.bottom())
    DrawLabel(list, 4, y - line / 2, map.x - 12, Label(model, model.rows().Position(mark->row)));
}

}  // namespace headscope::ui
