#include "live_panel.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "overlay_drawing.h"
#include "panel_widgets.h"

namespace headscope::ui {

namespace {

constexpr float kPanelWidth = 318;
constexpr float kLabelWidth = 120;

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

}  // namespace

void LivePanel::Mark(const std::string& name) {
  const ImVec2 min = ImGui::GetItemRectMin(), max = ImGui::GetItemRectMax();
  controls_[name] = {static_cast<double>(min.x), static_cast<double>(min.y), static_cast<double>(max.x - min.x),
                     static_cast<double>(max.y - min.y)};
}

void LivePanel::MarkStop(PanelStop stop) {
  Mark(stop.name);
  if (focus_.IsFocused(stop.name)) {
    const ImVec2 min = ImGui::GetItemRectMin(), max = ImGui::GetItemRectMax();
    ImGui::GetWindowDrawList()->AddRect({min.x - 2, min.y - 2}, {max.x + 2, max.y + 2}, kAccentColor, 3, 0, 2);
    if (shown_focus_ != stop.name && !ImGui::IsItemVisible()) ImGui::SetScrollHereY();
  }
  focus_.Add(std::move(stop));
}

bool LivePanel::HandleKey(PanelKey key) {
  if (methods_open_ && (key == PanelKey::kEscape || key == PanelKey::kActivate)) {
    close_methods_ = true;
    return true;
  }
  const PanelStop* const stop = focus_.focused();
  if (stop == nullptr) return false;
  // The key may change what the panel shows, and with it the stop: what it does is taken out first.
  const auto adjust = stop->adjust;
  const auto activate = stop->activate;
  const auto jump = stop->jump;
  switch (key) {
    case PanelKey::kLeft:
    case PanelKey::kDown:
      // A list runs downwards, a scale upwards.
      if (adjust) adjust(key == PanelKey::kDown && stop->name == "method" ? +1 : -1);
      break;
    case PanelKey::kRight:
    case PanelKey::kUp:
      if (adjust) adjust(key == PanelKey::kUp && stop->name == "method" ? -1 : +1);
      break;
    case PanelKey::kHome:
    case PanelKey::kEnd:
      if (jump) jump(key == PanelKey::kEnd);
      break;
    case PanelKey::kActivate:
      if (activate) activate();
      break;
    case PanelKey::kEscape:
      focus_.Clear();
      break;
  }
  return true;
}

void LivePanel::RollUpWhereNarrow() {
  const bool narrow = ImGui::GetIO().DisplaySize.x < 2 * kPanelWidth;
  if (!rolled_by_hand_ && narrow != narrow_) {
    ImGui::SetNextWindowCollapsed(narrow, ImGuiCond_Always);
    rolled_up_ = narrow;
  }
  narrow_ = narrow;
}

void LivePanel::Draw(CanvasModel& model, const PixelRect& map) {
  controls_.clear();
  focus_.BeginFrame();
  methods_open_ = false;
  RollUpWhereNarrow();
  ImGui::SetNextWindowPos(Point(map.right() - 8, map.y + 8), off_canvas_ ? ImGuiCond_Always : ImGuiCond_FirstUseEver,
                          {1, 0});
  ImGui::SetNextWindowSizeConstraints({kPanelWidth, 0},
                                      {kPanelWidth, std::max(120.0f, static_cast<float>(map.height) - 16)});
  ImGui::SetNextWindowBgAlpha(0.92f);
  constexpr ImGuiWindowFlags kFlags =
      ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoSavedSettings;
  const bool open = ImGui::Begin("Method###method_panel", nullptr, kFlags);
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  if (ImGui::IsWindowCollapsed() != rolled_up_) {
    rolled_up_ = !rolled_up_;
    rolled_by_hand_ = true;
  }
  const auto x = static_cast<double>(at.x), y = static_cast<double>(at.y);
  controls_["panel"] = {x, y, static_cast<double>(size.x), static_cast<double>(size.y)};
  const auto title = static_cast<double>(ImGui::GetFrameHeight());
  controls_["roll"] = {x, y, title, title};  // the arrow in the title
  if (open) {
    DrawContents(model);
    off_canvas_ = at.x + size.x > ImGui::GetIO().DisplaySize.x && size.x + 8 <= static_cast<float>(map.right());
  }
  ImGui::End();
  focus_.EndFrame();
  shown_focus_ = focused();
  if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) resetting_.clear();
}

void LivePanel::DrawContents(CanvasModel& model) {
  MethodTrial& trial = model.trial();
  if (trial.method() == nullptr) {
    ImGui::TextDisabled("No methods: open a trace first.");
  } else {
    DrawMethod(trial);
    DrawKept(model);
    ImGui::Separator();
    DrawRun(model);
  }
  ImGui::SetNextItemOpen(display_open_);
  display_open_ = ImGui::CollapsingHeader("Display");
  MarkStop({"display", {}, [this] { display_open_ = !display_open_; }, {}});
  if (display_open_) DrawDisplay(model);
}

void LivePanel::DrawMethod(MethodTrial& trial) {
  const kernels::MethodSpec spec = *trial.method();  // a copy: picking another method changes what it points to
  ImGui::SetNextItemWidth(-1);
  methods_open_ = ImGui::BeginCombo("##method", spec.title.c_str(), ImGuiComboFlags_HeightLarge);
  if (methods_open_) {
    DrawMethodList(trial);
    ImGui::EndCombo();
  }
  close_methods_ = false;
  MarkStop({"method", [&trial](int notches) { trial.StepMethod(notches); }, {}, {}});
  if (!methods_open_) HelpTooltip(spec.summary + "\n" + spec.paper);
  if (trial.method()->name != spec.name) return;  // the new method's parameters come with the next frame
  for (const kernels::ParameterSpec& parameter : spec.parameters) DrawParameter(trial, parameter);
  if (!spec.parameters.empty()) {
    if (ImGui::SmallButton("Defaults")) trial.ResetToDefaults();
    MarkStop({"defaults", {}, [&trial] { trial.ResetToDefaults(); }, {}});
  }
}

void LivePanel::DrawMethodList(MethodTrial& trial) {
  const std::string present = trial.method()->name;
  const kernels::Phase* phase = nullptr;
  for (const kernels::MethodSpec& candidate : trial.methods()) {
    if (phase == nullptr || *phase != candidate.phase) {
      phase = &candidate.phase;
      ImGui::TextDisabled(candidate.phase == kernels::Phase::kPrefill ? "Prefill: all queries at once"
                                                                      : "Decode: one query a step");
    }
    const bool selected = candidate.name == present;
    if (ImGui::Selectable(candidate.title.c_str(), selected)) trial.SelectMethod(candidate.name);
    Mark("method:" + candidate.name);
    HelpTooltip(candidate.summary + "\n" + candidate.paper);
    if (selected) ImGui::SetItemDefaultFocus();
  }
  if (close_methods_) ImGui::CloseCurrentPopup();
}

void LivePanel::DrawParameter(MethodTrial& trial, const kernels::ParameterSpec& spec) {
  ImGui::PushID(spec.name.c_str());
  const double present = trial.values().Real(spec.name);
  double value = present;
  bool changed = false;
  const auto set = [&trial, spec](double wanted) { trial.SetValue(spec.name, wanted); };
  const auto step = [&trial, spec](int notches) {
    trial.SetValue(spec.name, SteppedValue(spec, trial.values().Real(spec.name), notches));
  };
  if (spec.type == kernels::ParameterType::kFlag) {
    bool on = present != 0;
    changed = ImGui::Checkbox(spec.name.c_str(), &on);
    MarkStop({spec.name, [set](int notches) { set(notches > 0 ? 1 : 0); }, [set, on] { set(on ? 0 : 1); }, {}});
    value = on ? 1 : 0;
    HelpTooltip(ParameterHelp(spec));
  } else {
    changed = DrawSlider(trial, spec, &value);
    MarkStop({spec.name, step, {}, [set, spec](bool last) { set(last ? spec.maximum : spec.minimum); }});
    HelpTooltip(ParameterHelp(spec));
    const float button = ImGui::GetFrameHeight();
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
  if (changed && value != present) set(value);
  ImGui::PopID();
}

bool LivePanel::DrawSlider(MethodTrial& trial, const kernels::ParameterSpec& spec, double* value) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(spec.name.c_str());
  HelpTooltip(ParameterHelp(spec));
  ImGui::SameLine(kLabelWidth);
  ImGui::SetNextItemWidth(-2 * (ImGui::GetFrameHeight() + ImGui::GetStyle().ItemSpacing.x) - 1);
  ImGuiSliderFlags flags = ImGuiSliderFlags_AlwaysClamp;
  if (spec.logarithmic) flags |= ImGuiSliderFlags_Logarithmic;
  std::string format = spec.type == kernels::ParameterType::kInteger ? "%.0f" : "%.4g";
  if (!spec.unit.empty() && spec.unit.size() <= 8) format += " " + spec.unit;
  const bool changed =
      ImGui::SliderScalar("##value", ImGuiDataType_Double, value, &spec.minimum, &spec.maximum, format.c_str(), flags);
  if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left) && !ImGui::GetIO().KeyCtrl) {
    resetting_ = spec.name;
    trial.SetValue(spec.name, spec.default_value);
  }
  if (resetting_ == spec.name || !changed) return false;
  *value = SnappedValue(spec, *value);
  return true;
}

}  // namespace headscope::ui
