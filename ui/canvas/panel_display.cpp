// SPDX-License-Identifier: Apache-2.0
// The panel's last part: how the map is drawn.
#include <algorithm>
#include <vector>

#include "analysis/types/color_map_label.h"
#include "live_panel.h"
#include "panel_widgets.h"

namespace headscope::ui {

namespace {

constexpr float kColorsWidth = 224;  // room for a name and what is said of it

}  // namespace

void LivePanel::DrawDisplay(CanvasModel& model) {
  CanvasSettings& settings = model.settings();
  const CanvasSettings before = settings;
  DrawColors(settings);

  ImGui::BeginGroup();
  int scale = settings.logarithmic ? 0 : 1;
  ImGui::RadioButton("log", &scale, 0);
  ImGui::SameLine();
  ImGui::RadioButton("linear", &scale, 1);
  ImGui::EndGroup();
  settings.logarithmic = scale == 0;
  MarkStop({"scale",
            [this, &settings](int notches) {
              settings.logarithmic = notches < 0;
              SettingsChanged();
            },
            [this, &settings] {
              settings.logarithmic = !settings.logarithmic;
              SettingsChanged();
            },
            {}});
  ImGui::SameLine();
  ImGui::BeginGroup();
  int reduction = settings.reduction == analysis::TileReduction::kMax ? 0 : 1;
  ImGui::RadioButton("largest", &reduction, 0);
  HelpTooltip("A texel that stands for many scores shows the largest of them: thin lines survive.");
  ImGui::SameLine();
  ImGui::RadioButton("mean", &reduction, 1);
  HelpTooltip("A texel that stands for many scores shows their mean: mass survives.");
  ImGui::EndGroup();
  settings.reduction = reduction == 0 ? analysis::TileReduction::kMax : analysis::TileReduction::kMean;
  const auto reduce = [this, &settings](bool by_mean) {
    settings.reduction = by_mean ? analysis::TileReduction::kMean : analysis::TileReduction::kMax;
    SettingsChanged();
  };
  MarkStop({"reduction",
            [reduce](int notches) { reduce(notches > 0); },
            [reduce, reduction] { reduce(reduction == 0); },
            {}});

  ImGui::SetNextItemWidth(190);
  if (ImGui::DragFloatRange2("log2 p", &settings.range.minimum_log2, &settings.range.maximum_log2, 0.05f, kLeastLog2,
                             kGreatestLog2, "%.1f")) {
    settings.range = ClampedRange(settings.range);
  }
  Mark("range");
  if (ImGui::SmallButton("Range of the view")) actions_.fit_range();
  MarkStop({"fit_range", {}, [this] { actions_.fit_range(); }, {}});
  for (const auto& [name, flag] :
       {std::pair{"profiles", &settings.profiles}, std::pair{"minimap", &settings.minimap}}) {
    ImGui::SameLine();
    ImGui::Checkbox(name, flag);
    MarkStop({name,
              {},
              [this, flag = flag] {
                *flag = !*flag;
                SettingsChanged();
              },
              {}});
  }
  if (settings != before) SettingsChanged();
}

void LivePanel::DrawColors(CanvasSettings& settings) {
  std::vector<const analysis::ColorMap*> maps;
  for (const analysis::ColorMap& colors : analysis::ColorMaps()) {
    if (FindMapColors(colors.name) != nullptr) maps.push_back(&colors);
  }
  std::vector<PanelListEntry> entries;
  entries.reserve(maps.size());
  for (const analysis::ColorMap* colors : maps)
    entries.push_back({colors->name, analysis::ColorMapLabel(*colors), {}, {}});
  const auto present = static_cast<size_t>(std::find(maps.begin(), maps.end(), settings.color_map) - maps.begin());
  const auto picked = colors_.Draw(kColorsControl, kColorsWidth, entries, present,
                                   [this](const std::string& name) { Mark("colours:" + name); });
  if (picked) settings.color_map = maps[*picked];
  MarkStop({kColorsControl,
            [this, &settings, maps](int notches) {
              const auto count = static_cast<int64_t>(maps.size());
              const auto shown = std::find(maps.begin(), maps.end(), settings.color_map) - maps.begin();
              settings.color_map = maps[static_cast<size_t>((shown + notches + count) % count)];
              SettingsChanged();
            },
            [this] { colors_.Toggle(); },
            {}});
  ImGui::SameLine();
  ImGui::TextUnformatted("colours");
}

}  // namespace headscope::ui
