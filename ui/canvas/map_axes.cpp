// SPDX-License-Identifier: Apache-2.0
// Token numbers, and token texts where there is room, along the map's upper and left edges.
#include <algorithm>
#include <cmath>

#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

namespace {

constexpr double kTickLength = 4;
constexpr double kMinRowPixelsForText = 15;
constexpr double kMinColumnPixelsForText = 34;
constexpr double kBetweenColumnNumbers = 64;              // pixels: six digits and a gap
constexpr double kAnswerThickness = 3, kLeastAnswer = 3;  // pixels of a mark across and along the axis

// A task's answer along an axis; `place` gives a token's pixel.
template <typename Place, typename Draw>
void MarkAnswers(const CanvasModel& model, const Place& place, const Draw& draw) {
  if (model.rows().num_rows() == 0) return;
  for (const TokenSpan& span : model.answers()) {
    const double begin = place(span.begin), end = place(span.end);
    if (begin == end) continue;  // none of its queries was recorded
    draw(begin, std::max(end, begin + kLeastAnswer));
  }
}

void DrawColumnAxis(ImDrawList* list, const CanvasModel& model, const OverlayOptions& options) {
  const PixelRect& area = options.layout->column_axis;
  const OverlayInks& inks = InksOf(options);
  const ViewTransform& view = *options.view;
  const ScoreRect visible = view.Visible();
  const double line = ImGui::GetFontSize();
  const bool texts = view.pixels_per_score() >= kMinColumnPixelsForText;
  const double base = area.bottom();
  list->AddLine(Point(area.x, base - 0.5), Point(area.right(), base - 0.5), inks.line);
  DrawText(list, area.x, area.y + 2, inks.dim, "key token  →");
  PushClip(list, area);
  MarkAnswers(
      model, [&](int64_t token) { return view.ColumnToX(static_cast<double>(token)); },
      [&](double begin, double end) {
        list->AddRectFilled(Point(begin, base - kAnswerThickness), Point(end, base), inks.accent);
      });
  for (const int64_t token : AxisTicks(visible.column_begin, visible.column_end, view.pixels_per_score(),
                                       texts ? 1 : kBetweenColumnNumbers)) {
    const auto column = static_cast<double>(token);
    const double center = view.ColumnToX(column + 0.5);
    const std::string number = std::to_string(token);
    list->AddLine(Point(center, base - kTickLength), Point(center, base), inks.line);
    if (texts) {
      // Two lines per key: its text, and its number above where it fits.
      const PixelRect cell{view.ColumnToX(column) + 1, area.y, view.pixels_per_score() - 2, area.height};
      DrawClippedText(list, cell, cell.x, base - kTickLength - line, inks.text, model.TokenText(token));
      if (static_cast<double>(TextSize(number).x) <= cell.width && cell.x > area.x + 90)
        DrawClippedText(list, cell, cell.x, base - kTickLength - 2 * line, inks.dim, number);
    } else {
      // The first and the last number stay whole.
      const auto width = static_cast<double>(TextSize(number).x);
      const double left = std::clamp(center - width / 2, area.x, std::max(area.x, area.right() - width));
      DrawText(list, left, base - kTickLength - line, inks.text, number);
    }
  }
  list->PopClipRect();
}

void DrawRowAxis(ImDrawList* list, const CanvasModel& model, const OverlayOptions& options) {
  const PixelRect& area = options.layout->row_axis;
  const OverlayInks& inks = InksOf(options);
  const ViewTransform& view = *options.view;
  const ScoreRect visible = view.Visible();
  const double line = ImGui::GetFontSize();
  const double edge = area.right();
  list->AddLine(Point(edge - 0.5, area.y), Point(edge - 0.5, area.bottom()), inks.line);
  const double top = options.layout->column_axis.y + 2;
  DrawText(list, area.x + 4, top, inks.dim, "query token");
  DrawText(list, area.x + 4, top + line, inks.dim, "↓");
  PushClip(list, area);
  // The first recorded query at a token, or after it.
  MarkAnswers(
      model,
      [&](int64_t token) {
        const bool is_behind = token > model.rows().Position(model.rows().num_rows() - 1);
        return view.RowToY(static_cast<double>(is_behind ? model.rows().num_rows() : model.rows().FirstRowAt(token)));
      },
      [&](double begin, double end) {
        list->AddRectFilled(Point(edge - kAnswerThickness, begin), Point(edge, end), inks.accent);
      });
  const bool texts = view.pixels_per_score() >= kMinRowPixelsForText;
  for (const int64_t row : AxisTicks(visible.row_begin, visible.row_end, view.pixels_per_score(), texts ? 1 : 50)) {
    const double center = view.RowToY(static_cast<double>(row) + 0.5);
    const int64_t position = model.rows().Position(row);
    const std::string number = std::to_string(position);
    const double number_x = edge - kTickLength - 2 - static_cast<double>(TextSize(number).x);
    list->AddLine(Point(edge - kTickLength, center), Point(edge, center), inks.line);
    // The first and the last label stay whole.
    const double number_y =
        texts ? center - line / 2 : std::clamp(center - line / 2, area.y, std::max(area.y, area.bottom() - line));
    DrawText(list, number_x, number_y, texts ? inks.dim : inks.text, number);
    if (texts) {
      const PixelRect cell{area.x + 2, area.y, number_x - area.x - 6, area.height};
      DrawClippedText(list, cell, cell.x, center - line / 2, inks.text, model.TokenText(position));
    }
  }
  list->PopClipRect();
}

}  // namespace

void DrawAxes(const CanvasModel& model, const OverlayOptions& options) {
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  DrawColumnAxis(list, model, options);
  DrawRowAxis(list, model, options);
}

}  // namespace headscope::ui
