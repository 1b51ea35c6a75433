// SPDX-License-Identifier: Apache-2.0
#include "canvas_commands.h"

#include "canvas_widget.h"

namespace headscope::ui {

namespace {

constexpr CanvasCommand kCommands[] = {
    {"cancel-run", "Cancel run", "Cancel the run being measured", [](HeadCanvas& canvas) { canvas.CancelRun(); }},
    {"scale-linear", "Linear scale", "Colours follow the probability",
     [](HeadCanvas& canvas) { canvas.SetScale(ColorScale::kLinear); }},
    {"by-largest", "Largest of a pixel's scores", "A pixel shows the largest of its scores: thin lines survive",
     [](HeadCanvas& canvas) { canvas.SetReduction(analysis::TileReduction::kMax); }},
    {"fit-range", "Colour range of the view", "Spread the colours over the probabilities in view",
     [](HeadCanvas& canvas) { canvas.FitRange(); }},
};

}  // namespace

std::span<const CanvasCommand> CanvasCommands() {
  return kCommands;
}

}  // namespace headscope::ui
