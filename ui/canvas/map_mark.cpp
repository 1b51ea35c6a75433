// SPDX-License-Identifier: Apache-2.0
// The marked score: lines along its row and its column, which leave the score itself and its neighbours to be seen, and
// its two tokens at their ends.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

namespace {

constexpr ImU32 kMarkGround = IM_COL32(16, 52, 30, 255);
constexpr double kRing = 9;            // pixels
constexpr double kLeastNameRoom = 40;  // pixels: less has no room for a head's numbers
constexpr double kBetweenLabels = 6;   // with their grounds
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
  DrawText(list, x, y, kDarkGroundInks.mark, text);
}

// What a map beside another is of, what matters most first.
std::vector<std::string> NameOf(const CanvasModel& model, const std::string& trace) {
  std::string head = "head " + std::to_string(model.head()->layer) + ":" + std::to_string(model.head()->head);
  if (!trace.empty()) head += " of " + trace;
  std::vector<std::string> parts = {std::move(head)};
  if (!model.settings().overlay || model.trial().method() == nullptr) return parts;
  parts.push_back(model.trial().method()->title);
  if (!model.trial().mask()) return parts;
  const int permille = static_cast<int>(std::lround(1000 * model.trial().mask()->summary.kept_fraction));
  parts.push_back("kept " + std::to_string(permille / 10) + "." + std::to_string(permille % 10) + " %");
  return parts;
}

}  // namespace

void DrawName(const CanvasModel& model, const OverlayOptions& options) {
  const PixelRect& map = options.view->viewport();
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  // On a narrow map the end is missing and not the head.
  const double room = map.width - 14;
  if (room < kLeastNameRoom) return;
  const std::string text = FirstPartsWithin(NameOf(model, options.trace_name), room);
  const ImVec2 size = TextSize(text);
  // In the corner where a causal map has nothing.
  const double x = map.right() - static_cast<double>(size.x) - 9, y = map.y + 5;
  list->AddRectFilled(Point(x - 5, y - 2), Point(map.right() - 4, y + static_cast<double>(size.y) + 2),
                      IM_COL32(20, 20, 20, 210), 3);
  DrawText(list, x, y, kTextColor, text);
}

void DrawOtherCursor(const CanvasModel& model, const OverlayOptions& options) {
  const std::optional<MarkedScore>& score = model.other_cursor();
  if (!score || !model.head() || model.cursor() || model.workbench() == nullptr) return;
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  const ViewTransform& view = *options.view;
  const PixelRect& map = view.viewport();
  const double x = view.ColumnToX(static_cast<double>(score->column) + 0.5);
  const double y = view.RowToY(static_cast<double>(score->row) + 0.5);
  const ImU32 ink = InksOf(options).other_cursor;
  PushClip(list, map);
  list->AddLine(Point(x, map.y), Point(x, map.bottom()), ink);
  list->AddLine(Point(map.x, y), Point(map.right(), y), ink);
  if (model.rows().IsCausal(score->row, score->column)) {
    const Exact exact = model.workbench()->ExactScore(*model.head(), score->row, score->column);
    const std::string text = "p = " + FormatProbability(exact.probability);
    const ImVec2 size = TextSize(text);
    const double left = std::min(x + 8, map.right() - static_cast<double>(size.x) - 6),
                 top = std::max(y - 22, map.y + 2);
    list->AddRectFilled(Point(left - 3, top - 1),
                        Point(left + static_cast<double>(size.x) + 3, top + static_cast<double>(size.y) + 1),
                        IM_COL32(16, 34, 52, 230), 3);
    DrawText(list, left, top, IM_COL32(150, 210, 255, 255), text);
  }
  list->PopClipRect();
}

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
  const ImU32 ink = InksOf(options).mark;
  PushClip(list, map);
  for (const double side : {-half, half}) {
    list->AddLine(Point(x + side, map.y), Point(x + side, map.bottom()), ink);
    list->AddLine(Point(map.x, y + side), Point(map.right(), y + side), ink);
  }
  if (!edges) list->AddCircle(Point(x, y), static_cast<float>(kRing), ink, 0, 2);
  list->PopClipRect();

  // The pointer's own numbers would lie on top of these and be read with them.
  const double line = ImGui::GetFontSize();
  const std::optional<CursorScore>& cursor = model.cursor();
  if (x >= map.x && x < map.right()) {
    const std::string text = Label(model, mark->column);
    const auto width = static_cast<double>(TextSize(text).x);
    const double left = std::clamp(x - width / 2, map.x, std::max(map.x, map.right() - width));
    const double reach =
        cursor ? static_cast<double>(TextSize(std::to_string(cursor->column)).x) / 2 + kBetweenLabels : 0;
    const double pointer = cursor ? view.ColumnToX(static_cast<double>(cursor->column) + 0.5) : 0;
    if (!cursor || pointer + reach < left || pointer - reach > left + width)
      DrawLabel(list, left, map.y - line - 5, 0, text);
  }
  if (y >= map.y && y < map.bottom()) {
    const bool is_covered =
        cursor && std::abs(view.RowToY(static_cast<double>(cursor->row) + 0.5) - y) < line + kBetweenLabels / 2;
    const PixelRect& axis = options.layout->row_axis;
    if (!is_covered)
      DrawLabel(list, axis.x + 4, y - line / 2, axis.width - 12, Label(model, model.rows().Position(mark->row)));
  }
}

}  // namespace headscope::ui
