// SPDX-License-Identifier: Apache-2.0
// `headscope bench --gui`, which times the window. The commands know no window: main gives them what runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace headscope::app {

struct WindowBenchArguments {
  std::string trace;      // empty: the shipped one
  std::string synthetic;  // "131072x1024": in its place one that is made for this; empty: none
  int32_t width = 1600, height = 1000;
  double pan_seconds = 4;
  int32_t live_steps = 12;
  std::string output;
  bool force = false, quiet = false;
};

// Empty in a build without a window.
using WindowBench = std::function<int(const WindowBenchArguments&)>;
void SetWindowBench(WindowBench bench);

}  // namespace headscope::app
