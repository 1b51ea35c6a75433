// SPDX-License-Identifier: Apache-2.0
// One method beside dense attention on many heads of a trace, for the window: the sweep of `headscope compare`.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/measured_heads.h"
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

// Adds the lower layers whose choices the method takes in that layer, as far as the trace has them; empty: it takes
// none. Not to outlive the trace.
std::function<analysis::MeasuredHeadsPtr(analysis::MeasuredHeadsPtr)> LowerLayersFor(
    const OpenedTrace& trace, const std::string& method, const kernels::ParameterValues& values, int32_t layer);

// Runs where the first head lies exactly: on the GPU, or else on the CPU. Returns early when stopped.
void MeasureHeads(OpenedTrace& trace, const std::vector<analysis::HeadId>& heads, const MeasuredSweep& sweep,
                  const HeadsCalls<analysis::MethodResult>& calls, const std::stop_token& stop);

}  // namespace headscope::app
