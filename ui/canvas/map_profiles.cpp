// SPDX-License-Identifier: Apache-2.0
// The curves along the map's lower and right edges, and the kept mass of the method under trial beside the rows.
#include <algorithm>
#include <cmath>

#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

std::string ColumnProfileText(const CanvasModel& model, const ViewProfiles& profiles, bool narrow) {
  return analysis::DescribeKeyProfile(
      PeakOf(profiles.column_mean, profiles.first_column_bin, profiles.level, model.rows().num_columns()), narrow);
}

namespace {

constexpr double kTick = 4;  // pixels

void DrawFrame(ImDrawList* list, const PixelRect& area, const OverlayInks& inks) {
  list->AddRect(Point(area.x, area.y), Point(area.right(), area.bottom()), inks.line);
}

void DrawColumnProfile(ImDrawList* list, const CanvasModel& model, const OverlayOptions& options) {
  const PixelRect& area = options.layout->column_profile;
  const OverlayInks& inks = InksOf(options);
  const ViewProfiles& profiles = *options.profiles;
  const CanvasSettings& settings = model.settings();
  DrawFrame(list, area, inks);
  PushClip(list, area);
  const double bin = std::ldexp(1.0, profiles.level);
  // Whole pixels: edges between them would be drawn half covered, and many thin bars as stripes.
  const auto edge = [&](size_t i) {
    return options.view->ColumnToX((static_cast<double>(profiles.first_column_bin) + static_cast<double>(i)) * bin);
  };
  for (const ProfileBar& bar : BarsOf(profiles.column_mean, 1 / DevicePixel(), edge)) {
    const double height = area.height * static_cast<double>(analysis::ScalePosition(
                                            std::log2(bar.value), settings.range, settings.logarithmic));
    list->AddRectFilled(Point(bar.begin, area.bottom() - height), Point(bar.end, area.bottom()), inks.mass);
  }
  const auto fits = [&area](const std::string& text) {
    return static_cast<double>(TextSize(text).x) <= area.width - 6;
  };
  // On the bars, which the first keys of a short prompt reach the top with: the ink of what is read.
  DrawText(list, area.x + 3, area.y + 1, inks.text,
           KeyProfileThatFits(ColumnProfileText(model, profiles), ColumnProfileText(model, profiles, /*narrow=*/true),
                              fits));
  list->PopClipRect();
  // The bars' ends on the scale of the map's colours.
  const double line = ImGui::GetFontSize();
  for (const float position : {0.0f, 0.5f, 1.0f}) {
    const double y = area.bottom() - area.height * static_cast<double>(position);
    const double value =
        std::exp2(static_cast<double>(analysis::ScaleValue(position, settings.range, settings.logarithmic)));
    const std::string text = (position == 1.0f ? "p = " : "") + FormatProbability(value);
    list->AddLine(Point(area.x - kTick, y), Point(area.x, y), inks.line);
    DrawText(list, area.x - kTick - 3 - static_cast<double>(TextSize(text).x),
             std::clamp(y - line / 2, area.y - 2, area.bottom() - line + 2), inks.text, text);
  }
}

void DrawRowProfile(ImDrawList* list, const CanvasModel& model, const OverlayOptions& options) {
  const PixelRect& area = options.layout->row_profile;
  const OverlayInks& inks = InksOf(options);
  const ViewProfiles& profiles = *options.profiles;
  const ViewTransform& view = *options.view;
  DrawFrame(list, area, inks);
  PushClip(list, area);
  const double bin = std::ldexp(1.0, profiles.level);
  const auto edge = [&](size_t i) {
    return view.RowToY((static_cast<double>(profiles.first_row_bin) + static_cast<double>(i)) * bin);
  };
  for (const ProfileBar& bar : BarsOf(profiles.row_mass, 1 / DevicePixel(), edge)) {
    const double width = area.width * static_cast<double>(std::clamp(bar.value, 0.0f, 1.0f));
    list->AddRectFilled(Point(area.x, bar.begin), Point(area.x + width, bar.end), inks.mass);
  }
  if (model.settings().overlay) {
    // Per pixel line the least kept mass of the rows in it: the row that loses most must not hide.
    const double pixel = DevicePixel();
    const auto num_lines = static_cast<int64_t>(std::ceil(area.height / pixel)) + 1;
    for (int64_t line_number = 0; line_number < num_lines; ++line_number) {
      const double y = OnDevicePixel(area.y) + pixel * static_cast<double>(line_number);
      if (y >= area.bottom()) break;
      const auto first = static_cast<int64_t>(std::floor(view.YToRow(y)));
      const auto last = static_cast<int64_t>(std::floor(view.YToRow(y + pixel)));
      if (view.YToRow(y) < 0) continue;
      const std::optional<float> least = model.LeastKeptMass(first, last + 1);
      if (!least) continue;
      const double x = area.x + (area.width - 2) * static_cast<double>(std::clamp(*least, 0.0f, 1.0f));
      list->AddRectFilled(Point(x, y), Point(x + 2, y + pixel), inks.mask);
    }
  }
  list->PopClipRect();
  const double line = ImGui::GetFontSize();
  DrawText(list, area.x, area.y - 2 * line - 4, inks.dim, "mass");
  DrawText(list, area.x, area.y - line - 4, inks.dim, "in view");
  // A mass is a share: the scale ends at 1.
  for (const double share : {0.0, 0.5, 1.0}) {
    const double x = area.x + area.width * share;
    list->AddLine(Point(x, area.bottom()), Point(x, area.bottom() + kTick), inks.line);
  }
  const double top = area.bottom() + kTick;
  DrawText(list, area.x - 2, top, inks.text, "0");
  DrawText(list, area.right() - static_cast<double>(TextSize("1").x), top, inks.text, "1");
  if (const auto peak = PeakOf(profiles.row_mass, profiles.first_row_bin, profiles.level, model.rows().num_rows()))
    DrawText(list, area.x, top + line, inks.dim,
             "max " + FormatProbability(static_cast<double>(peak->value)).substr(0, 4));
  if (model.settings().overlay) DrawText(list, area.x, top + 2 * line, inks.mask, "kept");
}

}  // namespace

void DrawProfiles(const CanvasModel& model, const OverlayOptions& options) {
  if (!model.settings().profiles || options.profiles == nullptr) return;
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  // A small map is without them.
  if (options.layout->column_profile.height > 0) DrawColumnProfile(list, model, options);
  if (options.layout->row_profile.width > 0) DrawRowProfile(list, model, options);
}

}  // namespace headscope::ui
