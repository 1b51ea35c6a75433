// SPDX-License-Identifier: Apache-2.0
// Opens the window, in builds that have one.
#pragma once

#include <string>

namespace headscope::app {

// Throws UsageError in a headless build and where there is no display, naming what to do instead.
int OpenWindow(int argc, char** argv, const std::string& open_path);

}  // namespace headscope::app
