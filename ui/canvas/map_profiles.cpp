// The curves along the map's lower and right edges, and the kept mass of the method under trial beside the rows.
#include <algorithm>
#include <cmath>

#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

namespace {

void DrawFrame(ImDrawList* list, const PixelRect& area) {
  list->AddRect(Point(area.x, area.y), Point(area.right(), area.bottom()), kLineColor);
}

void DrawColumnProfile(ImDrawList* list, const CanvasModel& model, const OverlayOptions& options) {
  const PixelRect& area = options.layout->column_profile;
  const ViewProfiles& profiles = *options.profiles;
  const CanvasSettings& settings = model.settings();
  DrawFrame(list, area);
  PushClip(list, area);
  const double bin = std::ldexp(1.0, profiles.level);
  for (size_t i = 0; i < profiles.column_mean.size(); ++i) {
    const float mean = profiles.column_mean[i];
    if (std::isnan(mean)) continue;
    const double column = (static_cast<double>(profiles.first_column_bin) + static_cast<double>(i)) * bin;
    const double height =
        area.height * static_cast<double>(ScalePosition(std::log2(mean), settings.range, settings.logarithmic));
    const double x = options.view->ColumnToX(column);
    const double width = std::max(1.0, options.view->ColumnToX(column + bin) - x);
    list->AddRectFilled(Point(x, area.bottom() - height), Point(x + width, area.bottom()),
                        IM_COL32(150, 150, 160, 200));
  }
  DrawText(list, area.x + 3, area.y + 1, kDimColor, "mean p of a key, over the queries in view");
  list->PopClipRect();
}

void DrawRowProfile(ImDrawList* list, const CanvasModel& model, const OverlayOptions& options) {
  const PixelRect& area = options.layout->row_profile;
  const ViewProfiles& profiles = *options.profiles;
  const ViewTransform& view = *options.view;
  DrawFrame(list, area);
  PushClip(list, area);
  const double bin = std::ldexp(1.0, profiles.level);
  for (size_t i = 0; i < profiles.row_mass.size(); ++i) {
    const float mass = profiles.row_mass[i];
    if (std::isnan(mass)) continue;
    const double row = (static_cast<double>(profiles.first_row_bin) + static_cast<double>(i)) * bin;
    const double y = view.RowToY(row);
    const double height = std::max(1.0, view.RowToY(row + bin) - y);
    const double width = area.width * static_cast<double>(std::clamp(mass, 0.0f, 1.0f));
    list->AddRectFilled(Point(area.x, y), Point(area.x + width, y + height), IM_COL32(150, 150, 160, 200));
  }
  const auto& mask = model.trial().mask();
  if (model.settings().overlay && mask && static_cast<int64_t>(mask->kept_mass.size()) == model.rows().num_rows()) {
    // Per pixel line the least kept mass of the rows in it: the row that loses most must not hide.
    for (double y = std::floor(area.y); y < area.bottom(); ++y) {
      const auto first = static_cast<int64_t>(std::max(0.0, std::floor(view.YToRow(y))));
      const auto last = std::min(static_cast<int64_t>(std::floor(view.YToRow(y + 1))), model.rows().num_rows() - 1);
      if (view.YToRow(y) < 0 || last < first) continue;
      const float least = *std::min_element(mask->kept_mass.begin() + first, mask->kept_mass.begin() + last + 1);
      const double x = area.x + (area.width - 2) * static_cast<double>(std::clamp(least, 0.0f, 1.0f));
      list->AddRectFilled(Point(x, y), Point(x + 2, y + 1), kMaskColor);
    }
  }
  list->PopClipRect();
  const double line = ImGui::GetFontSize();
  DrawText(list, area.x, area.y - 2 * line - 4, kDimColor, "mass");
  DrawText(list, area.x, area.y - line - 4, kDimColor, "in view");
  if (model.settings().overlay) DrawText(list, area.x, area.bottom() + 2, kMaskColor, "kept");
}

}  // namespace

void DrawProfiles(const CanvasModel& model, const OverlayOptions& options) {
  if (!model.settings().profiles || options.profiles == nullptr) return;
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  DrawColumnProfile(list, model, options);
  DrawRowProfile(list, model, options);
}

}  // namespace headscope::ui
