// SPDX-License-Identifier: Apache-2.0
// One method beside dense attention on many heads of a trace, for the window: the sweep of `headscope compare`.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "opened_trace.h"
#include "tuned_heads.h"

namespace headscope::app {

struct MeasuredSweep {
  std::string method;
  kernels::ParameterValues values;
  bool alone = false;  // each head by itself, and not its layer in one launch
  analysis::CompareOptions options;
  std::function<void(const analysis::RepeatProgress&)> repeats;
};

// Runs where the first head lies exactly: on the GPU, or else on the CPU. Returns early when stopped.
void MeasureHeads(OpenedTrace& trace, const std::vector<analysis::HeadId>& heads, const MeasuredSweep& sweep,
                  const HeadsCalls<analysis::MethodResult>& calls, const std::stop_token& stop);

}  // namespace headscope::app
