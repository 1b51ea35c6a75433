#include "live_panel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

namespace {

constexpr float kPanelWidth = 318;
constexpr float kLabelWidth = 120;
constexpr int kPlotBins = 160;

void HelpTooltip(const std::string& text) {
  if (!ImGui::IsItemHovered() || text.empty()) return;
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(ImGui::GetFontSize() * 26);
  ImGui::TextUnformatted(text.c_str());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

std::string NumberText(const kernels::ParameterSpec& spec, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), spec.type == kernels::ParameterType::kReal ? "%.6g" : "%.0f", value);
  return text.data();
}

std::string ParameterHelp(const kernels::ParameterSpec& spec) {
  std::string text = spec.help;
  if (!spec.cost.empty()) text.append("\nRaising it: ").append(spec.cost);
  text.append("\n").append(NumberText(spec, spec.minimum)).append(" to ").append(NumberText(spec, spec.maximum));
  if (!spec.unit.empty()) text.append(" ").append(spec.unit);
  text.append(", default ").append(NumberText(spec, spec.default_value));
  return text.append(".\nCtrl+click to type, double click for the default.");
}

void ProblemText(const std::string& message) {
  ImGui::PushStyleColor(ImGuiCol_Text, IM_COL32(255, 140, 120, 255));
  ImGui::TextWrapped("%s", message.c_str());
  ImGui::PopStyleColor();
}

// A table row: label, then two numbers.
void ResultRow(const char* label, const char* format, double dense, double method) {
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  ImGui::TextUnformatted(label);
  for (const double value : {dense, method}) {
    ImGui::TableNextColumn();
    if (std::isnan(value)) {
      ImGui::TextDisabled("-");
    } else {
      ImGui::Text(format, value);
    }
  }
}

}  // namespace

void LivePanel::Mark(const std::string& name) {
  const ImVec2 min = ImGui::GetItemRectMin(), max = ImGui::GetItemRectMax();
  controls_[name] = {static_cast<double>(min.x), static_cast<double>(min.y), static_cast<double>(max.x - min.x),
                     static_cast<double>(max.y - min.y)};
}

void LivePanel::Draw(CanvasModel& model, const PixelRect& map) {
  controls_.clear();
  ImGui::SetNextWindowPos(Point(map.right() - 8, map.y + 8), off_canvas_ ? ImGuiCond_Always : ImGuiCond_FirstUseEver,
                          {1, 0});
  ImGui::SetNextWindowSizeConstraints({kPanelWidth, 0},
                                      {kPanelWidth, std::max(120.0f, static_cast<float>(map.height) - 16)});
  ImGui::SetNextWindowBgAlpha(0.92f);
  constexpr ImGuiWindowFlags kFlags =
      ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoSavedSettings;
  if (ImGui::Begin("Method###method_panel", nullptr, kFlags)) {
    MethodTrial& trial = model.trial();
    if (trial.method() == nullptr) {
      ImGui::TextDisabled("No methods: open a trace first.");
    } else {
      DrawMethod(trial);
      DrawKept(model);
      ImGui::Separator();
      DrawRun(model);
    }
    const bool display = ImGui::CollapsingHeader("Display");
    Mark("display");
    if (display) DrawDisplay(model);
    const ImVec2 canvas = ImGui::GetIO().DisplaySize, at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
    off_canvas_ = at.x + size.x > canvas.x && size.x + 8 <= static_cast<float>(map.right());
  }
  ImGui::End();
  if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) resetting_.clear();
}

void LivePanel::DrawMethod(MethodTrial& trial) {
  const kernels::MethodSpec spec = *trial.method();  // a copy: picking another method changes what it points to
  ImGui::SetNextItemWidth(-1);
  if (ImGui::BeginCombo("##method", spec.title.c_str(), ImGuiComboFlags_HeightLarge)) {
    for (const kernels::MethodSpec& candidate : trial.methods()) {
      const bool selected = candidate.name == spec.name;
      if (ImGui::Selectable(candidate.title.c_str(), selected)) trial.SelectMethod(candidate.name);
      Mark("method:" + candidate.name);
      HelpTooltip(candidate.summary + "\n" + candidate.paper);
      if (selected) ImGui::SetItemDefaultFocus();
    }
    ImGui::EndCombo();
  } else {
    Mark("method");
    HelpTooltip(spec.summary + "\n" + spec.paper);
  }
  if (trial.method()->name != spec.name) return;  // the new method's parameters come with the next frame
  for (const kernels::ParameterSpec& parameter : spec.parameters) DrawParameter(trial, parameter);
  if (!spec.parameters.empty()) {
    if (ImGui::SmallButton("Defaults")) trial.ResetToDefaults();
    Mark("defaults");
  }
}

void LivePanel::DrawParameter(MethodTrial& trial, const kernels::ParameterSpec& spec) {
  ImGui::PushID(spec.name.c_str());
  const double present = trial.values().Real(spec.name);
  double value = present;
  bool changed = false;
  if (spec.type == kernels::ParameterType::kFlag) {
    bool on = present != 0;
    changed = ImGui::Checkbox(spec.name.c_str(), &on);
    Mark(spec.name);
    value = on ? 1 : 0;
    HelpTooltip(ParameterHelp(spec));
  } else {
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted(spec.name.c_str());
    HelpTooltip(ParameterHelp(spec));
    ImGui::SameLine(kLabelWidth);
    const float button = ImGui::GetFrameHeight();
    ImGui::SetNextItemWidth(-2 * (button + ImGui::GetStyle().ItemSpacing.x) - 1);
    ImGuiSliderFlags flags = ImGuiSliderFlags_AlwaysClamp;
    if (spec.logarithmic) flags |= ImGuiSliderFlags_Logarithmic;
    std::string format = spec.type == kernels::ParameterType::kInteger ? "%.0f" : "%.4g";
    if (!spec.unit.empty() && spec.unit.size() <= 8) format += " " + spec.unit;
    changed = ImGui::SliderScalar("##value", ImGuiDataType_Double, &value, &spec.minimum, &spec.maximum, format.c_str(),
                                  flags);
    Mark(spec.name);
    if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left) && !ImGui::GetIO().KeyCtrl) {
      resetting_ = spec.name;
      trial.SetValue(spec.name, spec.default_value);
    }
    HelpTooltip(ParameterHelp(spec));
    if (resetting_ == spec.name) {
      changed = false;
    } else if (changed) {
      value = SnappedValue(spec, value);
    }
    ImGui::PushButtonRepeat(true);
    for (const int direction : {-1, +1}) {
      ImGui::SameLine();
      if (ImGui::Button(direction < 0 ? "-" : "+", {button, 0})) {
        value = SteppedValue(spec, present, direction);
        changed = true;
      }
      Mark(spec.name + (direction < 0 ? ":down" : ":up"));
    }
    ImGui::PopButtonRepeat();
  }
  if (changed && value != present) trial.SetValue(spec.name, value);
  ImGui::PopID();
}

void LivePanel::DrawKept(CanvasModel& model) {
  MethodTrial& trial = model.trial();
  bool overlay = model.settings().overlay;
  if (ImGui::Checkbox("Show what it keeps", &overlay)) {
    model.settings().overlay = overlay;
    if (actions_.settings_changed) actions_.settings_changed();
  }
  Mark("overlay");
  if (!overlay) return;
  ImGui::TextDisabled("grey: left out   hatched: keys after the query");
  if (!trial.mask_error().empty()) ProblemText(trial.mask_error());
  if (!trial.mask()) {
    if (trial.mask_pending()) ImGui::TextDisabled("selecting …");
    return;
  }
  const LiveMask& mask = *trial.mask();
  // Numbers of the parameters before stay, dimmed, until the new ones are there.
  if (trial.mask_pending()) ImGui::PushStyleVar(ImGuiStyleVar_Alpha, 0.55f);
  ImGui::Text("kept %.2f %% of the scores", 100 * mask.summary.kept_fraction);
  ImGui::ProgressBar(static_cast<float>(mask.summary.kept_fraction), {-1, 6}, "");
  Mark("kept");
  ImGui::Text("kept mass  min %.4f   mean %.4f", mask.summary.cra_min, mask.summary.cra_mean);
  HelpTooltip(
      "Cumulative residual attention: the share of a query's attention that lies on what is kept; the least and the "
      "mean over the recorded queries.");
  ImGui::Text("worst query %lld   selected in %.2f ms", static_cast<long long>(mask.summary.worst_row),
              mask.summary.select_ms);
  ImGui::SameLine();
  if (ImGui::SmallButton("go")) actions_.go_to_position(mask.summary.worst_row);
  Mark("worst");
  if (!mask.kept_mass.empty()) {
    // The least of each bin: the query that loses most must not hide.
    std::vector<float> bins(std::min<size_t>(kPlotBins, mask.kept_mass.size()));
    for (size_t bin = 0; bin < bins.size(); ++bin) {
      const size_t begin = bin * mask.kept_mass.size() / bins.size();
      const size_t end = std::max(begin + 1, (bin + 1) * mask.kept_mass.size() / bins.size());
      bins[bin] = *std::min_element(mask.kept_mass.begin() + static_cast<std::ptrdiff_t>(begin),
                                    mask.kept_mass.begin() + static_cast<std::ptrdiff_t>(end));
    }
    ImGui::TextDisabled("kept mass by query");
    ImGui::PlotLines("##kept_mass", bins.data(), static_cast<int>(bins.size()), 0, nullptr, 0.0f, 1.0f,
                     {ImGui::GetContentRegionAvail().x, 52});
    Mark("kept_mass");
  }
  if (trial.mask_pending()) ImGui::PopStyleVar();
}

void LivePanel::DrawRun(CanvasModel& model) {
  MethodTrial& trial = model.trial();
  if (trial.running()) {
    if (ImGui::Button("Cancel")) actions_.cancel_run();
    Mark("cancel");
    ImGui::SameLine();
    const ProgressReport& progress = trial.progress();
    const std::string stage = progress.stage.empty() ? "running …" : progress.stage;
    ImGui::ProgressBar(progress.fraction >= 0 ? static_cast<float>(progress.fraction) : 0.0f, {-1, 0}, stage.c_str());
  } else {
    const bool possible = model.head().has_value();
    if (!possible) ImGui::BeginDisabled();
    if (ImGui::Button("Run")) actions_.run();
    Mark("run");
    HelpTooltip("Measures dense and sparse attention on this head: medians of the repeats.");
    if (!possible) ImGui::EndDisabled();
    ImGui::SameLine();
    ImGui::SetNextItemWidth(110);
    int repeats = model.settings().repeats;
    if (ImGui::SliderInt("repeats", &repeats, 1, kMaxRepeats, "%d",
                         ImGuiSliderFlags_AlwaysClamp | ImGuiSliderFlags_Logarithmic)) {
      model.settings().repeats = repeats;
      if (actions_.settings_changed) actions_.settings_changed();
    }
    Mark("repeats");
  }
  if (!trial.run_error().empty()) ProblemText(trial.run_error());
  DrawResult(trial);
}

void LivePanel::DrawResult(const MethodTrial& trial) {
  if (!trial.result()) return;
  const analysis::MethodResult& result = *trial.result();
  // The numbers of another method or of other parameters stay for comparison, dimmed.
  const kernels::MethodSpec& present = *trial.method();
  const bool outdated = result.method != present.name || result.parameters != trial.values().ToString(present);
  if (outdated) ImGui::PushStyleVar(ImGuiStyleVar_Alpha, 0.55f);
  DrawResultTable(result);
  if (outdated) ImGui::PopStyleVar();
}

void LivePanel::DrawResultTable(const analysis::MethodResult& result) {
  if (!ImGui::BeginTable("result", 3, ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerV)) return;
  ImGui::TableSetupColumn("");
  ImGui::TableSetupColumn("dense");
  ImGui::TableSetupColumn(result.method.c_str());
  ImGui::TableHeadersRow();
  Mark("result");
  const double none = std::nan("");
  const double dense_ms = result.dense_attend.median_ms;
  ResultRow("select ms", "%.3f", none, result.select.median_ms);
  ResultRow("attend ms", "%.3f", dense_ms, result.attend.median_ms);
  ResultRow("together ms", "%.3f", dense_ms, result.select.median_ms + result.attend.median_ms);
  ResultRow("speed-up", "%.2f x", 1, result.speedup);
  ResultRow("kept", "%.4f", 1, result.kept_fraction);
  ResultRow("relative error", "%.2e", none, result.relative_error);
  ResultRow("largest error", "%.2e", none, result.max_error);
  ResultRow("cosine", "%.6f", none, result.cosine);
  ImGui::EndTable();
  ImGui::PushTextWrapPos(0);  // a line longer than the panel goes on below
  ImGui::TextDisabled("%s, median of %d, %s", result.device.c_str(), result.attend.repeats, result.parameters.c_str());
  ImGui::PopTextWrapPos();
}

void LivePanel::DrawDisplay(CanvasModel& model) {
  CanvasSettings& settings = model.settings();
  const CanvasSettings before = settings;
  ImGui::SetNextItemWidth(150);
  if (ImGui::BeginCombo("colours", settings.color_map->name.c_str())) {
    for (const analysis::ColorMap& colors : analysis::ColorMaps()) {
      if (FindMapColors(colors.name) == nullptr) continue;
      if (ImGui::Selectable(colors.name.c_str(), &colors == settings.color_map)) settings.color_map = &colors;
    }
    ImGui::EndCombo();
  }
  int scale = settings.logarithmic ? 0 : 1;
  ImGui::RadioButton("log", &scale, 0);
  ImGui::SameLine();
  ImGui::RadioButton("linear", &scale, 1);
  settings.logarithmic = scale == 0;
  int reduction = settings.reduction == analysis::TileReduction::kMax ? 0 : 1;
  ImGui::SameLine();
  ImGui::RadioButton("largest", &reduction, 0);
  HelpTooltip("A texel that stands for many scores shows the largest of them: thin lines survive.");
  ImGui::SameLine();
  ImGui::RadioButton("mean", &reduction, 1);
  HelpTooltip("A texel that stands for many scores shows their mean: mass survives.");
  settings.reduction = reduction == 0 ? analysis::TileReduction::kMax : analysis::TileReduction::kMean;
  ImGui::SetNextItemWidth(190);
  if (ImGui::DragFloatRange2("log2 p", &settings.range.minimum_log2, &settings.range.maximum_log2, 0.05f, kLeastLog2,
                             kGreatestLog2, "%.1f")) {
    settings.range = ClampedRange(settings.range);
  }
  Mark("range");
  if (ImGui::SmallButton("Range of the view")) actions_.fit_range();
  ImGui::SameLine();
  ImGui::Checkbox("profiles", &settings.profiles);
  Mark("profiles");
  ImGui::SameLine();
  ImGui::Checkbox("minimap", &settings.minimap);
  if (settings != before && actions_.settings_changed) actions_.settings_changed();
}

}  // namespace headscope::ui
