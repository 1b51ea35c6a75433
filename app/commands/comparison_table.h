// SPDX-License-Identifier: Apache-2.0
// The table of measured runs that people read on a terminal.
#pragma once

#include <string>
#include <vector>

#include "analysis/types/comparison.h"

namespace headscope::app {

// A line for each run, in order, and below the table what a reader of its numbers has to know: what was timed, whose
// dense attention the baseline is, parameters that all runs of a method share.
std::string ComparisonTable(const std::vector<analysis::MethodResult>& results);

}  // namespace headscope::app
