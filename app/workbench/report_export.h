// SPDX-License-Identifier: Apache-2.0
// What the window knows of a trace as one page, as `headscope demo` writes it.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "opened_trace.h"

namespace headscope::app {

// `alone` as WriteMapFile takes it. To `path` and, beside it, NAME-LAYER-HEAD.png for each of `pictures`; existing ones
// are replaced. Throws as the files do, and CancelledError.
void WriteReport(OpenedTrace& trace, const std::vector<analysis::HeadStatistics>& statistics,
                 const std::vector<analysis::MethodResult>& runs, const std::vector<ui::MapDrawing>& pictures,
                 bool alone, const std::string& path, const std::function<void(double share)>& progress,
                 const std::stop_token& stop);

}  // namespace headscope::app
