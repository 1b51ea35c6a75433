// SPDX-License-Identifier: Apache-2.0
// Opens the window, in builds that have one.
#pragma once

#include <string>

#include "commands/bench_window.h"

namespace headscope::app {

// Throws UsageError in a headless build and where there is no display, naming what to do instead.
void CheckDisplay();
// Throws as CheckDisplay does.
int OpenWindow(int argc, char** argv, const std::string& open_path);

// `headscope bench --gui`; in builds that have a window.
int BenchWindow(const WindowBenchArguments& arguments);

}  // namespace headscope::app
