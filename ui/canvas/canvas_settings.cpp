// SPDX-License-Identifier: Apache-2.0
#include "canvas_settings.h"

#include <algorithm>
#include <cmath>

namespace headscope::ui {

namespace {

void ReadFlag(const QJsonObject& json, const char* name, bool* flag) {
  *flag = json.value(QLatin1String(name)).toBool(*flag);
}

}  // namespace

const analysis::ColorMap* FindMapColors(const std::string& name) {
  const analysis::ColorMap* const found = analysis::FindColorMap(name);
  return found != nullptr && found->kind == analysis::ColorMapKind::kSequential ? found : nullptr;
}

analysis::ValueRange ClampedRange(analysis::ValueRange range) {
  const auto finite = [](float value, float otherwise) { return std::isfinite(value) ? value : otherwise; };
  range.minimum_log2 = std::clamp(finite(range.minimum_log2, kLeastLog2), kLeastLog2, kGreatestLog2 - kLeastRangeSpan);
  range.maximum_log2 =
      std::clamp(finite(range.maximum_log2, kGreatestLog2), range.minimum_log2 + kLeastRangeSpan, kGreatestLog2);
  return range;
}

QJsonObject RangeToJson(const analysis::ValueRange& range) {
  return {{"range_log2_min", static_cast<double>(range.minimum_log2)},
          {"range_log2_max", static_cast<double>(range.maximum_log2)}};
}

QJsonObject SettingsToJson(const CanvasSettings& settings) {
  return {
      {"color_map", QString::fromStdString(settings.color_map->name)},
      {"scale", settings.logarithmic ? "log" : "linear"},
      {"reduction", settings.reduction == analysis::TileReduction::kMax ? "max" : "mean"},
      {"range_log2_min", static_cast<double>(settings.range.minimum_log2)},
      {"range_log2_max", static_cast<double>(settings.range.maximum_log2)},
      {"overlay", settings.overlay},
      {"lost", settings.lost},
      {"panel", settings.panel_visible},
      {"profiles", settings.profiles},
      {"minimap", settings.minimap},
      {"live_runs", settings.live_runs},
      {"repeats", settings.repeats},
      {"measures_alone", settings.measures_alone},
      {"picture_width", settings.picture_width},
      {"picture_ground", !settings.picture_ground                            ? "window"
                         : *settings.picture_ground == PictureGround::kLight ? "light"
                                                                             : "dark"},
  };
}

CanvasSettings SettingsFromJson(const QJsonObject& json, const CanvasSettings& present) {
  CanvasSettings settings = present;
  if (const auto* colors = FindMapColors(json.value(QLatin1String("color_map")).toString().toStdString()))
    settings.color_map = colors;
  const QString scale = json.value(QLatin1String("scale")).toString();
  if (scale == QLatin1String("log")) settings.logarithmic = true;
  if (scale == QLatin1String("linear")) settings.logarithmic = false;
  const QString reduction = json.value(QLatin1String("reduction")).toString();
  if (reduction == QLatin1String("max")) settings.reduction = analysis::TileReduction::kMax;
  if (reduction == QLatin1String("mean")) settings.reduction = analysis::TileReduction::kMean;
  analysis::ValueRange range = settings.range;
  range.minimum_log2 =
      static_cast<float>(json.value(QLatin1String("range_log2_min")).toDouble(static_cast<double>(range.minimum_log2)));
  range.maximum_log2 =
      static_cast<float>(json.value(QLatin1String("range_log2_max")).toDouble(static_cast<double>(range.maximum_log2)));
  settings.range = ClampedRange(range);
  ReadFlag(json, "overlay", &settings.overlay);
  ReadFlag(json, "lost", &settings.lost);
  ReadFlag(json, "panel", &settings.panel_visible);
  ReadFlag(json, "profiles", &settings.profiles);
  ReadFlag(json, "minimap", &settings.minimap);
  ReadFlag(json, "live_runs", &settings.live_runs);
  ReadFlag(json, "measures_alone", &settings.measures_alone);
  const QString ground = json.value(QLatin1String("picture_ground")).toString();
  if (ground == QLatin1String("window")) settings.picture_ground.reset();
  if (ground == QLatin1String("dark")) settings.picture_ground = PictureGround::kDark;
  if (ground == QLatin1String("light")) settings.picture_ground = PictureGround::kLight;
  const int width = json.value(QLatin1String("picture_width")).toInt(settings.picture_width);
  if (width >= 0 && width <= kMaxPictureWidth) settings.picture_width = width;
  const int repeats = json.value(QLatin1String("repeats")).toInt(settings.repeats);
  if (repeats >= 1 && repeats <= kMaxRepeats) settings.repeats = repeats;
  return settings;
}

QJsonObject ViewToJson(const ViewTransform& view) {
  return {{"center_row", view.center_row()},
          {"center_column", view.center_column()},
          {"scores_per_pixel", view.scores_per_pixel()},
          {"whole", view.ShowsEverything()}};
}

void ApplyViewJson(const QJsonObject& json, ViewTransform* view) {
  // In a window of another size the whole map has another scale.
  if (json.value(QLatin1String("whole")).toBool()) return view->Fit();
  const double scale = json.value(QLatin1String("scores_per_pixel")).toDouble(view->scores_per_pixel());
  if (!(scale > 0)) return;
  view->CenterOn(json.value(QLatin1String("center_row")).toDouble(view->center_row()),
                 json.value(QLatin1String("center_column")).toDouble(view->center_column()), scale);
}

}  // namespace headscope::ui
