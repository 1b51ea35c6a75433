#include "canvas_commands.h"

#include "canvas_widget.h"

namespace headscope::ui {

namespace {

constexpr CanvasCommand kCommands[] = {
    {"next-method", "Next method", "The method after this one in the panel's list",
     [](HeadCanvas& canvas) { canvas.StepMethod(1); }},
    {"previous-method", "Previous method", "The method before this one in the panel's list",
     [](HeadCanvas& canvas) { canvas.StepMethod(-1); }},
    {"choose-method", "Choose method", "Open the panel's list of methods",
     [](HeadCanvas& canvas) { canvas.ToggleMethodList(); }},
    {"run-method", "Run method", "Measure the method on this head beside dense attention",
     [](HeadCanvas& canvas) { canvas.RunMethod(); }},
    {"cancel-run", "Cancel run", "Give up the run that is being measured",
     [](HeadCanvas& canvas) { canvas.CancelRun(); }},
    {"scale-log", "Logarithmic scale", "Colours follow log2 of the probability",
     [](HeadCanvas& canvas) { canvas.SetScale(ColorScale::kLogarithmic); }},
    {"scale-linear", "Linear scale", "Colours follow the probability",
     [](HeadCanvas& canvas) { canvas.SetScale(ColorScale::kLinear); }},
    {"by-largest", "Largest of a pixel's scores", "A pixel shows the largest of its scores: thin lines survive",
     [](HeadCanvas& canvas) { canvas.SetReduction(analysis::TileReduction::kMax); }},
    {"by-mean", "Mean of a pixel's scores", "A pixel shows the mean of its scores: mass survives",
     [](HeadCanvas& canvas) { canvas.SetReduction(analysis::TileReduction::kMean); }},
    {"fit-range", "Colour range of the view", "Spread the colours over the probabilities in view",
     [](HeadCanvas& canvas) { canvas.FitRange(); }},
    {"zoom-in", "Zoom in", "About the middle of the map", [](HeadCanvas& canvas) { canvas.ZoomIn(); }},
    {"zoom-out", "Zoom out", "About the middle of the map", [](HeadCanvas& canvas) { canvas.ZoomOut(); }},
    {"fit", "Fit the whole map", "Show every row and column", [](HeadCanvas& canvas) { canvas.FitView(); }},
};

}  // namespace

std::span<const CanvasCommand> CanvasCommands() {
  return kCommands;
}

}  // namespace headscope::ui
