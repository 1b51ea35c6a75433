// SPDX-License-Identifier: Apache-2.0
// Times the window on a trace: first picture, frames while panning, tiles, and the masks that follow a slider.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "kernels/method_spec.h"
#include "ui/application.h"

namespace headscope::ui {

struct WindowBenchOptions {
  std::string trace;
  int32_t width = 1600, height = 1000;  // of the map's canvas, which has the window for itself
  double pan_seconds = 4;               // at each zoom
  int32_t live_steps = 12;              // of each method's slider; 0: none
  std::function<void(const std::string& stage)> progress = [](const std::string&) {};  // now and then
  std::stop_token stop;                                                                // ends it early
};

struct Times {
  std::vector<double> ms;  // in the order taken
  // Of the sorted times, the one that this share lies at or below. NaN without any.
  double Quantile(double share) const;
};

struct PanTimes {
  double scores_per_pixel = 0;
  int32_t level = 0;  // of the tiles
  Times frames;       // from one frame on the screen to the next, the pointer having moved between
  Times tiles;        // from a tile's request to its arrival
};

struct LiveTimes {
  std::string method, parameter;
  kernels::Phase phase = kernels::Phase::kPrefill;
  Times masks;          // from a parameter's change to its mask, kept mass and count
  Times maps;           // to the last of the mask's tiles, and the errors of its live run, on the screen
  std::string refusal;  // why there are none, or no more: the window's sentence
};

struct WindowBenchResult {
  std::string error;     // not empty: one sentence, and the rest says nothing
  std::string renderer;  // OpenGL's own name for what draws
  int64_t num_tokens = 0, num_rows = 0, num_heads = 0;
  int32_t head_dim = 0;
  double window_ms = 0;   // from the start of the program's window to its first frame
  double opened_ms = 0;   // from opening the trace to its heads' names
  double picture_ms = 0;  // to the first picture of a head, however coarse
  double settled_ms = 0;  // to the last tile of it
  std::vector<PanTimes> pans;
  std::vector<LiveTimes> live;
  bool complete = true;
};

WindowBenchResult RunWindowBench(const WindowBenchOptions& options, const WorkbenchFactory& make_workbench);

}  // namespace headscope::ui
