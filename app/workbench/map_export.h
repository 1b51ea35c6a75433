// SPDX-License-Identifier: Apache-2.0
// The window's map in a file, as `headscope render` draws it.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "opened_trace.h"
#include "ui/workbench.h"

namespace headscope::app {

// `alone`: a decode method chooses for the head by itself, as ui::Workbench::measures_alone. Throws CancelledError when
// stopped; an existing file is replaced (the dialog has asked).
void WriteMapFile(OpenedTrace& trace, const ui::MapDrawing& drawing, bool alone, const std::string& path,
                  const std::function<void(double share)>& progress, const std::stop_token& stop);

}  // namespace headscope::app
