// SPDX-License-Identifier: Apache-2.0
// One head after the other tuned at one target, and the configuration of all of them: `headscope tune` for the window.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "opened_trace.h"
#include "ui/workbench.h"

namespace headscope::app {

// The cheapest parameters that leave fewer than 5 % of the rows below `target`. Parameters that are no budgets stay at
// `values`. Throws UsageError for what is no prefill method with budgets, CancelledError when stopped.
ui::TunedSetting TuneHead(OpenedTrace& trace, analysis::HeadId head, const std::string& method,
                          const kernels::ParameterValues& values, double target,
                          const std::function<void(double share)>& progress, const std::stop_token& stop);

// As `headscope tune -o` writes it: by the extension of `path`, .json or .csv. Replaces a file of that name. Throws
// UsageError when heads are missing.
void ExportTuning(const data::TraceReader& trace, const std::string& method, double target,
                  const std::vector<ui::TunedSetting>& heads, size_t num_heads_chosen, const std::string& path);

}  // namespace headscope::app
