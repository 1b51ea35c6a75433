// SPDX-License-Identifier: Apache-2.0
// Below the map, one lane for each step of a decode method: the keys that it keeps, under their columns of the map.
//
// On the map itself a few rows of a long prompt are less than a pixel high; the lanes are always as high as they can.
#include <algorithm>

#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

namespace {

// Intervals of key columns as filled rectangles of one lane, each at least a pixel wide; what touches becomes one.
class Lane {
 public:
  Lane(ImDrawList* list, const ViewTransform& view, double top, double bottom, ImU32 color)
      : list_(list), view_(view), top_(top), bottom_(bottom), color_(color) {}
  ~Lane() { Flush(); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void Add(const kernels::ColumnRange& range) {
    const double begin = view_.ColumnToX(range.begin);
    const double end = std::max(view_.ColumnToX(range.end), begin + 1);
    if (begin > end_) {
      Flush();
      begin_ = begin;
    }
    end_ = std::max(end_, end);
  }

 private:
  void Flush() {
    if (end_ > begin_) list_->AddRectFilled(Point(begin_, top_), Point(end_, bottom_), color_);
  }

  ImDrawList* const list_;
  const ViewTransform& view_;
  const double top_, bottom_;
  const ImU32 color_;
  double begin_ = -1e30, end_ = -1e30;  // of the rectangle that is still growing
};

}  // namespace

void DrawSteps(const CanvasModel& model, const OverlayOptions& options) {
  const PixelRect& area = options.layout->steps;
  if (area.height <= 0) return;
  const OverlayInks& inks = InksOf(options);
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  list->AddRect(Point(area.x, area.y), Point(area.right(), area.bottom()), inks.line);
  const double line = ImGui::GetFontSize();
  const PixelRect& axis = options.layout->row_axis;
  DrawText(list, axis.x + 4, area.y, inks.dim, "kept by");
  const std::optional<LiveMask>& mask = model.trial().mask();
  if (!mask || !mask->steps) return;
  const analysis::KeptSteps& kept = *mask->steps;
  const PixelRect label{axis.x + 4, area.y, axis.width - 8, area.height};
  DrawClippedText(list, label, label.x, area.y + line, inks.dim,
                  kept.steps.size() == 1 ? "query" : std::to_string(kept.steps.size()) + " queries,");
  DrawClippedText(list, label, label.x, area.y + 2 * line, inks.text, std::to_string(kept.steps.front().position));
  if (kept.steps.size() > 1) {
    DrawClippedText(list, label, label.x, area.y + 3 * line, inks.text,
                    "to " + std::to_string(kept.steps.back().position));
  }
  PushClip(list, area);
  const ScoreRect visible = options.view->Visible();
  const double height = (area.height - 2) / static_cast<double>(kept.steps.size());
  const double gap = height >= 3 ? 1 : 0;
  for (size_t step = 0; step < kept.steps.size(); ++step) {
    const double top = area.y + 1 + height * static_cast<double>(step);
    const double bottom = std::max(top + height - gap, top + 1);
    const analysis::KeptStep& one = kept.steps[step];
    list->AddRectFilled(Point(options.view->ColumnToX(one.attended.begin), top),
                        Point(options.view->ColumnToX(one.attended.end), bottom), inks.attended);
    Lane lane(list, *options.view, top, bottom, inks.mask);
    // From the first interval that reaches into the view.
    auto range =
        std::upper_bound(one.kept.begin(), one.kept.end(), visible.column_begin,
                         [](double column, const kernels::ColumnRange& candidate) { return column < candidate.end; });
    for (; range != one.kept.end() && range->begin < visible.column_end; ++range) lane.Add(*range);
  }
  list->PopClipRect();
}

}  // namespace headscope::ui
