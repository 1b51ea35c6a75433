// SPDX-License-Identifier: Apache-2.0
// The panel over the map: pick a method, drag its parameters, watch what it keeps, measure it against dense. Everything
// in it comes from the method registry and the workbench's replies. Between ImGui::NewFrame and Render.
#pragma once

#include <imgui.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "canvas_model.h"
#include "panel_focus.h"
#include "panel_list.h"

namespace headscope::ui {

class LivePanel {
 public:
  struct Actions {
    std::function<void()> settings_changed;
    std::function<void()> run;
    std::function<void()> cancel_run;
    std::function<void()> go_to_worst;  // the query that keeps least, and what it loses most of
    std::function<void()> show_steps;   // the rows of a decode method's steps
    std::function<void()> fit_range;
    std::function<void()> fit_trace;  // the cheapest parameters at the target, where the present ones keep everything
  };
  explicit LivePanel(Actions actions) : actions_(std::move(actions)) {}

  // Before the canvas is laid out: where the panel wants room of its own. Where the map would become small beside it,
  // it is rolled up to its title, which then says the method and what that keeps, until the user opens it. Opened there
  // it lies over the map, at the upper right, where causal attention is blank; so it does where the user has put it.
  PanelPlace Place(double width, double height, const CanvasParts& parts);
  // Drawn in its place of the model's layout, also when that moves, until the user moves the panel; there again when
  // the canvas became too small for where it was. It cannot be moved off the canvas.
  void Draw(CanvasModel& model);

  // Whether it was as high as what was drawn in it. If not, the next frames make it so.
  bool fits() const { return fits_; }

  // Tab and Shift+Tab: false when the focus leaves the panel.
  bool MoveFocus(bool forward);
  void FocusLast() { focus_.FocusLast(); }
  void ClearFocus();
  // False when the key is the map's: the focus is not in the panel, and its lists are closed.
  bool HandleKey(PanelKey key);
  // Puts the panel back to where it is while nobody has moved or rolled it.
  void Reset() {
    place_anew_ = true;
    restored_.reset();
  }
  // What a user has done to the panel's place, so that it can be given back: where it was moved to, and whether it is
  // rolled up.
  struct Position {
    std::optional<ImVec2> moved_to;  // empty: nobody has moved it
    bool rolled_up = false, rolled_by_hand = false;
  };
  Position position() const;
  void Restore(const Position& position);
  void Unroll() { unroll_ = rolled_up_; }
  // Unrolls the panel, goes to its list of methods, and opens that or, when it is open, closes it.
  void ToggleMethodList();
  // What is typed while a list is open filters it (panel_list.h).
  bool HasOpenList() const;
  bool HandleText(const std::string& letters);
  bool EraseText();

  // Where each control was drawn last, by name ("method", a parameter's name, "run", ..): what tests and guides point
  // at.
  const std::map<std::string, PixelRect>& controls() const { return controls_; }
  // The control that the keyboard is on; empty on the map.
  std::string focused() const { return focus_.focused() != nullptr ? focus_.focused()->name : std::string(); }

 private:
  std::string Title(const CanvasModel& model) const;
  void DrawContents(CanvasModel& model);
  void DrawMethod(CanvasModel& model);
  bool DrawMethodList(MethodTrial& trial);  // true when another method was picked
  void DrawParameter(CanvasModel& model, const kernels::ParameterSpec& registered);
  void CloseLists();
  template <typename Panel, typename Asked>
  static bool AnyListOf(Panel& panel, const Asked& asked);
  bool DrawChoice(const kernels::ParameterSpec& spec, double* value);  // true when one was picked
  bool DrawSlider(MethodTrial& trial, const kernels::ParameterSpec& spec, double* value);
  // panel_kept.cpp
  void DrawKept(CanvasModel& model);
  void DrawLive(CanvasModel& model);
  void DrawKeptNumbers(CanvasModel& model, const LiveMask& mask);
  void DrawKeepsEverything(const CanvasModel& model, const LiveMask& mask);
  void DrawSteps(const CanvasModel& model, const LiveMask& mask);
  void DrawMassPlot(const LiveMask& mask);
  // panel_run.cpp
  void DrawRun(CanvasModel& model);
  void DrawProgress(const ProgressReport& progress);
  void DrawResult(const MethodTrial& trial);
  void DrawResultTable(const analysis::MethodResult& result);
  // panel_display.cpp
  void DrawDisplay(CanvasModel& model);
  void DrawColors(CanvasSettings& settings);

  // Notes where the item before was drawn.
  void Mark(const std::string& name);
  // The same of a control that the keyboard reaches, with a frame around it while it is there.
  void MarkStop(PanelStop stop);
  void SettingsChanged() const {
    if (actions_.settings_changed) actions_.settings_changed();
  }

  Actions actions_;
  std::map<std::string, PixelRect> controls_;
  PanelFocus focus_;
  std::string shown_focus_;             // of the last frame: a control that gets the focus is scrolled into sight
  double anchor_x_ = 0, anchor_y_ = 0;  // the panel's upper right corner while nobody has moved it
  float most_height_ = 0;               // of the panel
  float label_width_ = 0;               // of the parameters' names: that of the method's longest one
  float results_height_ = 1e4f;         // of all that scrolls below the sliders, in the last frame
  bool fits_ = true;                    // in the last frame
  bool at_anchor_ = true;               // in the last frame
  bool off_canvas_ = false;             // in the last frame
  bool place_anew_ = false;             // wanted
  std::optional<Position> restored_;    // wanted
  bool narrow_ = false, rolled_up_ = false;
  std::optional<bool> roll_;     // wanted
  bool rolled_by_hand_ = false;  // the user's choice stays
  bool unroll_ = false;          // wanted
  PanelList methods_, colors_;
  std::map<std::string, PanelList> choices_;  // by parameter
  bool display_open_ = false;
  int64_t results_shown_ = 0;  // MethodTrial::num_results when the last one was scrolled into sight
  std::string resetting_;      // the parameter that a double click set back; its slider is deaf until the button is up
};

}  // namespace headscope::ui
