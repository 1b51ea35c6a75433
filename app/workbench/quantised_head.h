// SPDX-License-Identifier: Apache-2.0
// The quantisation of one head as the window asks for it, by the code behind `headscope quantise`.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "data/trace_reader.h"
#include "ui/workbench.h"

namespace headscope::app {

std::vector<std::string> QuantiseFormats();
std::vector<std::string> QuantiseScales();

// In the order of the command's file. Throws as analysis::QuantiseHeads, and UsageError for an unknown name.
std::vector<ui::QuantisedOutput> QuantisedOutputs(const data::TraceReader& trace, analysis::HeadId head,
                                                  const ui::QuantiseSettings& settings,
                                                  const std::function<void(double share)>& progress,
                                                  const std::stop_token& stop);

}  // namespace headscope::app
