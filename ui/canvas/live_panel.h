// The panel over the map: pick a method, drag its parameters, watch what it keeps, measure it against dense. Everything
// in it comes from the method registry and the workbench's replies. Between ImGui::NewFrame and Render.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "canvas_model.h"

namespace headscope::ui {

class LivePanel {
 public:
  struct Actions {
    std::function<void()> settings_changed;
    std::function<void()> run;
    std::function<void()> cancel_run;
    std::function<void(int64_t position)> go_to_position;  // a row's token position
    std::function<void()> fit_range;
  };
  explicit LivePanel(Actions actions) : actions_(std::move(actions)) {}

  // Drawn at the upper right of `map`, where causal attention is blank, until the user moves it; there again when the
  // canvas became too small for where it was.
  void Draw(CanvasModel& model, const PixelRect& map);

  // Where each control was drawn last, by name ("method", a parameter's name, "run", ..): what tests and guides point
  // at.
  const std::map<std::string, PixelRect>& controls() const { return controls_; }

 private:
  void DrawMethod(MethodTrial& trial);
  void DrawParameter(MethodTrial& trial, const kernels::ParameterSpec& spec);
  void DrawKept(CanvasModel& model);
  void DrawRun(CanvasModel& model);
  void DrawResult(const MethodTrial& trial);
  void DrawResultTable(const analysis::MethodResult& result);
  void DrawDisplay(CanvasModel& model);
  void Mark(const std::string& name);

  Actions actions_;
  std::map<std::string, PixelRect> controls_;
  bool off_canvas_ = false;  // in the last frame
  std::string resetting_;    // the parameter that a double click set back; its slider is deaf until the button is up
};

}  // namespace headscope::ui
