// SPDX-License-Identifier: Apache-2.0
#include "live_panel.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/types/number_text.h"
#include "overlay_drawing.h"
#include "panel_widgets.h"

namespace headscope::ui {

namespace {

constexpr float kWidth = static_cast<float>(kPanelWidth);
constexpr float kLeastLabelWidth = 120;
constexpr float kLeastResults = 90;  // pixels of what scrolls below the sliders
constexpr size_t kLongestUnit = 10;  // characters that a slider has room for

std::string NumberText(const kernels::ParameterSpec& spec, double value) {
  return analysis::Format(spec.type == kernels::ParameterType::kReal ? "%.6g" : "%.0f", value);
}

// `spec` as the slider has it; `registered` as the method does.
std::string ParameterHelp(const kernels::ParameterSpec& spec, const kernels::ParameterSpec& registered) {
  std::string text = spec.help;
  const bool is_number = spec.type == kernels::ParameterType::kInteger || spec.type == kernels::ParameterType::kReal;
  if (!spec.cost.empty()) text.append(is_number ? "\nRaising it: " : "\nCost: ").append(spec.cost);
  if (spec.type == kernels::ParameterType::kChoice)
    return text.append("\nThe default is ").append(ValueText(spec, spec.default_value)).append(".");
  text.append("\n").append(NumberText(spec, spec.minimum)).append(" to ").append(NumberText(spec, spec.maximum));
  if (const std::string unit = UnitText(spec); !unit.empty()) text.append(" ").append(unit);
  if (spec.maximum < registered.maximum) text.append(" in this trace");
  text.append(", default ").append(NumberText(spec, spec.default_value));
  return text.append(".\nCtrl+click to type, double-click for the default.");
}

}  // namespace

// Asks one list after the other until one says yes.
template <typename Panel, typename Asked>
bool LivePanel::AnyListOf(Panel& panel, const Asked& asked) {
  return asked(panel.methods_) || asked(panel.colors_) ||
         std::any_of(panel.choices_.begin(), panel.choices_.end(), [&](auto& choice) { return asked(choice.second); });
}

void LivePanel::Mark(const std::string& name) {
  const ImVec2 min = ImGui::GetItemRectMin(), max = ImGui::GetItemRectMax();
  controls_[name] = {static_cast<double>(min.x), static_cast<double>(min.y), static_cast<double>(max.x - min.x),
                     static_cast<double>(max.y - min.y)};
}

void LivePanel::MarkStop(PanelStop stop) {
  Mark(stop.name);
  if (focus_.IsFocused(stop.name)) {
    const ImVec2 min = ImGui::GetItemRectMin(), max = ImGui::GetItemRectMax();
    const ImU32 ink = PanelInk(kLightGroundInks.accent, kDarkGroundInks.accent);
    ImGui::GetWindowDrawList()->AddRect({min.x - 2, min.y - 2}, {max.x + 2, max.y + 2}, ink, 3, 0, 2);
    if (shown_focus_ != stop.name && !ImGui::IsItemVisible()) ImGui::SetScrollHereY();
  }
  focus_.Add(std::move(stop));
}

bool LivePanel::HandleKey(PanelKey key) {
  if (AnyListOf(*this, [key](PanelList& list) { return list.HandleKey(key); })) return true;
  const PanelStop* const stop = focus_.focused();
  if (key == PanelKey::kList) {
    if (stop != nullptr && stop->name == kColorsControl) {
      colors_.Toggle();
    } else {
      ToggleMethodList();
    }
    return true;
  }
  if (stop == nullptr) return false;
  // The key may change what the panel shows, and with it the stop: what it does is taken out first.
  const auto adjust = stop->adjust;
  const auto activate = stop->activate;
  const auto jump = stop->jump;
  switch (key) {
    case PanelKey::kLeft:
    case PanelKey::kDown:
      // A list runs downwards, a scale upwards.
      if (adjust) adjust(key == PanelKey::kDown && stop->name == kMethodControl ? +1 : -1);
      break;
    case PanelKey::kRight:
    case PanelKey::kUp:
      if (adjust) adjust(key == PanelKey::kUp && stop->name == kMethodControl ? -1 : +1);
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
    case PanelKey::kList:
      break;
  }
  return true;
}

bool LivePanel::HandleText(const std::string& letters) {
  return AnyListOf(*this, [&](PanelList& list) { return list.HandleText(letters); });
}

bool LivePanel::EraseText() {
  return AnyListOf(*this, [](PanelList& list) { return list.EraseText(); });
}

bool LivePanel::HasOpenList() const {
  return AnyListOf(*this, [](const PanelList& list) { return list.is_open(); });
}

void LivePanel::CloseLists() {
  AnyListOf(*this, [](PanelList& list) {
    list.Close();
    return false;
  });
}

bool LivePanel::MoveFocus(bool forward) {
  CloseLists();
  return focus_.Move(forward);
}

void LivePanel::ClearFocus() {
  CloseLists();
  focus_.Clear();
}

void LivePanel::ToggleMethodList() {
  unroll_ = rolled_up_;
  focus_.FocusOn(kMethodControl);
  methods_.Toggle();
}

PanelPlace LivePanel::Place(double width, double height, const CanvasParts& parts) {
  // Without what a method shows below the map: the choice of a method must not roll up the panel that it was made in.
  CanvasParts usual = parts;
  usual.steps = false;
  const bool narrow = !HasRoomForPanel(width, height, usual);
  if (place_anew_) rolled_by_hand_ = false;
  if (!rolled_by_hand_ && (narrow != narrow_ || place_anew_)) roll_ = rolled_up_ = narrow;
  narrow_ = narrow;
  if (restored_) {
    roll_ = rolled_up_ = restored_->rolled_up;
    rolled_by_hand_ = restored_->rolled_by_hand;
    at_anchor_ = !restored_->moved_to;
  }
  // For its list, or for the tour: that says nothing of the next narrow place, such as a half of a split map.
  if (std::exchange(unroll_, false) && rolled_up_) roll_ = rolled_up_ = false;
  if (!at_anchor_ && !place_anew_) return PanelPlace::kNone;
  if (rolled_up_) return PanelPlace::kStrip;
  return narrow ? PanelPlace::kNone : PanelPlace::kBeside;
}

LivePanel::Position LivePanel::position() const {
  if (restored_) return *restored_;
  Position position{.moved_to = {}, .rolled_up = rolled_up_, .rolled_by_hand = rolled_by_hand_};
  if (const auto panel = controls_.find("panel"); !at_anchor_ && panel != controls_.end())
    position.moved_to = Point(panel->second.x, panel->second.y);
  return position;
}

void LivePanel::Restore(const Position& position) {
  restored_ = position;
  place_anew_ = false;
}

std::string LivePanel::Title(const CanvasModel& model) const {
  const MethodTrial& trial = model.trial();
  if (!rolled_up_ || trial.method() == nullptr) return "Method";
  std::string title = trial.method()->title;
  const std::optional<LiveMask>& mask = trial.mask();
  if (!mask || trial.mask_pending()) return title;
  return title + analysis::Format(": kept %.1f %%", 100 * mask->summary.kept_fraction);
}

void LivePanel::Draw(CanvasModel& model) {
  fits_ = true;  // rolled up, it draws nothing that could be cut
  controls_.clear();
  focus_.BeginFrame();
  const PixelRect &map = model.layout().map, &place = model.layout().panel;
  const bool has_place = place.width > 0;
  const double anchor_x = std::floor(has_place ? place.right() : map.right() - 8),
               anchor_y = std::floor(has_place ? place.y : map.y + 8);
  if (roll_) ImGui::SetNextWindowCollapsed(*std::exchange(roll_, std::nullopt), ImGuiCond_Always);
  const std::optional<Position> restored = std::exchange(restored_, std::nullopt);
  const bool follows = at_anchor_ && (restored || anchor_x != anchor_x_ || anchor_y != anchor_y_);
  const bool is_put = restored && restored->moved_to;
  const bool anchored = std::exchange(place_anew_, false) || follows || (off_canvas_ && !is_put);
  if (is_put) {
    ImGui::SetNextWindowPos(*restored->moved_to, ImGuiCond_Always);
  } else {
    ImGui::SetNextWindowPos(Point(anchor_x, anchor_y), anchored ? ImGuiCond_Always : ImGuiCond_FirstUseEver, {1, 0});
  }
  anchor_x_ = anchor_x;
  anchor_y_ = anchor_y;
  // Down to the canvas' edge: what is below the map is less in the way than a panel that must be scrolled.
  most_height_ = std::max(120.0f, ImGui::GetIO().DisplaySize.y - static_cast<float>(anchor_y) - 8);
  ImGui::SetNextWindowSizeConstraints({kWidth, 0}, {kWidth, most_height_});
  ImGui::SetNextWindowBgAlpha(0.92f);
  constexpr ImGuiWindowFlags kFlags =
      ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoSavedSettings;
  const bool open = ImGui::Begin((Title(model) + "###method_panel").c_str(), nullptr, kFlags);
  const ImVec2 wanted = ImGui::GetWindowPos(), size = ImGui::GetWindowSize(), canvas = ImGui::GetIO().DisplaySize;
  // A drag ends at the canvas' edge: what is beyond it could not be used.
  const ImVec2 at(std::clamp(wanted.x, 0.0f, std::max(0.0f, canvas.x - size.x)),
                  std::clamp(wanted.y, 0.0f, std::max(0.0f, canvas.y - size.y)));
  if (at.x != wanted.x || at.y != wanted.y) ImGui::SetWindowPos(at);
  if (ImGui::IsWindowCollapsed() != rolled_up_) {
    rolled_up_ = !rolled_up_;
    rolled_by_hand_ = true;
  }
  const auto x = static_cast<double>(at.x), y = static_cast<double>(at.y);
  controls_["panel"] = {x, y, static_cast<double>(size.x), static_cast<double>(size.y)};
  const auto title = static_cast<double>(ImGui::GetFrameHeight());
  controls_["roll"] = {x, y, title, title};  // the arrow in the title
  // A window whose size is not known yet, as in its first frame, goes there in the next. On a canvas that it does not
  // fit into, its place is where the edges leave it: nobody has put it there.
  const auto within = [](double wish, double most) { return std::clamp(wish, 0.0, std::max(0.0, most)); };
  const double there_x = within(anchor_x - static_cast<double>(size.x), static_cast<double>(canvas.x - size.x)),
               there_y = within(anchor_y, static_cast<double>(canvas.y - size.y));
  at_anchor_ = anchored || (std::abs(x - there_x) < 1 && std::abs(y - there_y) < 1);
  off_canvas_ = !ImGui::IsMouseDown(ImGuiMouseButton_Left) && wanted.x + size.x > canvas.x &&
                size.x + 8 <= static_cast<float>(map.right());
  if (open) DrawContents(model);
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
    DrawMethod(model);
  }
  // The sliders stay where they are: what they lead to scrolls below them.
  const float room = most_height_ - ImGui::GetCursorPosY() - ImGui::GetStyle().WindowPadding.y;
  const float height = std::min(results_height_, std::max(kLeastResults, room));
  const bool laid_out = ImGui::BeginChild("results", {0, height}, false, ImGuiWindowFlags_NoBackground);
  if (trial.method() != nullptr) {
    DrawKept(model);
    // Runs are measured one at a time, and belong to the first map.
    ImGui::Separator();
    if (trial.view() == MapView::kFirst) {
      DrawRun(model);
    } else {
      DrawLive(model);
    }
  }
  ImGui::SetNextItemOpen(display_open_);
  display_open_ = ImGui::CollapsingHeader("Display");
  MarkStop({"display", {}, [this] { display_open_ = !display_open_; }, {}});
  if (display_open_) DrawDisplay(model);
  // Of the next frame, which every change of the height is followed by. The space below the last item is not needed. A
  // frame of a panel that has just been unrolled lays nothing out, and measured a height of nothing.
  const float drawn = ImGui::GetCursorPosY() - ImGui::GetStyle().ItemSpacing.y + 1;
  if (laid_out) fits_ = std::exchange(results_height_, drawn) == drawn;
  ImGui::EndChild();
}

void LivePanel::DrawMethod(CanvasModel& model) {
  MethodTrial& trial = model.trial();
  if (DrawMethodList(trial)) return;  // the new method's parameters come with the next frame
  const kernels::MethodSpec& spec = *trial.method();
  label_width_ = kLeastLabelWidth;
  for (const kernels::ParameterSpec& parameter : spec.parameters) {
    const ImGuiStyle& style = ImGui::GetStyle();
    label_width_ = std::max(
        label_width_,
        std::ceil(style.WindowPadding.x + ImGui::CalcTextSize(parameter.name.c_str()).x + style.ItemSpacing.x));
  }
  for (const kernels::ParameterSpec& parameter : spec.parameters) {
    if (trial.values().Matters(parameter)) DrawParameter(model, parameter);
  }
  if (!spec.parameters.empty()) {
    if (ImGui::SmallButton("Defaults")) trial.ResetToDefaults();
    MarkStop({"defaults", {}, [&trial] { trial.ResetToDefaults(); }, {}});
  }
}

bool LivePanel::DrawMethodList(MethodTrial& trial) {
  const kernels::MethodSpec& spec = *trial.method();
  std::vector<PanelListEntry> entries;
  size_t present = 0;
  const kernels::MethodSpec* before = nullptr;
  for (const kernels::MethodSpec& method : trial.methods()) {
    if (method.name == spec.name) present = entries.size();
    const bool prefill = method.phase == kernels::Phase::kPrefill;
    PanelListEntry& entry = entries.emplace_back();
    entry.name = method.name;
    entry.text = method.title;
    entry.help = method.summary + "\n" + method.paper + "\n" +
                 (prefill ? "Prefill: all queries at once" : "Decode: one query a step");
    if (before == nullptr || before->phase != method.phase || before->family != method.family)
      entry.heading = (prefill ? "Prefill: " : "Decode: ") + method.family;
    before = &method;
  }
  const auto picked =
      methods_.Draw(kMethodControl, -1, entries, present, [this](const std::string& name) { Mark("method:" + name); });
  MarkStop({kMethodControl, [&trial](int notches) { trial.StepMethod(notches); }, [this] { methods_.Toggle(); }, {}});
  if (!methods_.is_open()) HelpTooltip(entries[present].help + "\nF4 or Alt+Down: the list.");
  return picked && *picked != present && trial.SelectMethod(entries[*picked].name);
}

void LivePanel::DrawParameter(CanvasModel& model, const kernels::ParameterSpec& registered) {
  MethodTrial& trial = model.trial();
  kernels::ParameterSpec spec = registered;
  spec.maximum = SliderEnd(registered, model.trace(), model.head());
  ImGui::PushID(spec.name.c_str());
  const double present = trial.values().Real(spec.name);
  double value = present;
  bool changed = false;
  const auto set = [&trial, spec](double wanted) { trial.SetValue(spec.name, wanted); };
  const auto step = [&trial, spec](int notches) {
    // A key may come when another method has been chosen and the frame that shows it has not been drawn.
    const auto found = trial.values().values().find(spec.name);
    if (found != trial.values().values().end()) trial.SetValue(spec.name, SteppedValue(spec, found->second, notches));
  };
  if (spec.type == kernels::ParameterType::kFlag) {
    bool on = present != 0;
    changed = ImGui::Checkbox(spec.name.c_str(), &on);
    MarkStop({spec.name, [set](int notches) { set(notches > 0 ? 1 : 0); }, [set, on] { set(on ? 0 : 1); }, {}});
    value = on ? 1 : 0;
    HelpTooltip(ParameterHelp(spec, registered));
  } else if (spec.type == kernels::ParameterType::kChoice) {
    changed = DrawChoice(spec, &value);
    PanelList& list = choices_[spec.name];
    MarkStop({spec.name, step, [&list] { list.Toggle(); }, [set, spec](bool last) { set(last ? spec.maximum : 0); }});
    if (!list.is_open()) HelpTooltip(ParameterHelp(spec, registered));
  } else {
    changed = DrawSlider(trial, spec, &value);
    MarkStop({spec.name, step, {}, [set, spec](bool last) { set(last ? spec.maximum : spec.minimum); }});
    HelpTooltip(ParameterHelp(spec, registered));
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

bool LivePanel::DrawChoice(const kernels::ParameterSpec& spec, double* value) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(spec.name.c_str());
  Mark("label:" + spec.name);
  ImGui::SameLine(label_width_);
  std::vector<PanelListEntry> entries;
  for (const std::string& choice : spec.choices) entries.push_back({choice, choice, {}, {}});
  const auto picked = choices_[spec.name].Draw("##value", -1, entries, static_cast<size_t>(*value),
                                               [&](const std::string& choice) { Mark(spec.name + ":" + choice); });
  if (picked) *value = static_cast<double>(*picked);
  return picked.has_value();
}

bool LivePanel::DrawSlider(MethodTrial& trial, const kernels::ParameterSpec& spec, double* value) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(spec.name.c_str());
  Mark("label:" + spec.name);
  ImGui::SameLine(label_width_);
  ImGui::SetNextItemWidth(-2 * (ImGui::GetFrameHeight() + ImGui::GetStyle().ItemSpacing.x) - 1);
  ImGuiSliderFlags flags = ImGuiSliderFlags_AlwaysClamp;
  if (spec.logarithmic) flags |= ImGuiSliderFlags_Logarithmic;
  std::string format = spec.type == kernels::ParameterType::kInteger ? "%.0f" : "%.4g";
  if (UnitText(spec).size() <= kLongestUnit) format += " " + UnitText(spec, /*one=*/*value == 1);
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
