// SPDX-License-Identifier: Apache-2.0
// What patterns keep of one head's mass at falling budgets.
#pragma once

#include <map>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"
#include "kernels/method.h"

namespace headscope::analysis {

struct PatternPoint {
  double pairs = 0, flops = 0;  // dense attention's by the pattern's: pairs, and what a kernel computes
  double recall = 0;
};

struct PatternCurves {
  std::map<std::string, std::vector<PatternPoint>> points;  // by method title
  std::map<std::string, std::string> refused;               // methods that do not take this head, by title, and why
};

// Baselines are left out. Throws as PreviewMask's status says, and where every method refuses the head.
PatternCurves CurvesOf(const HeadTensorsPtr& head, std::span<const kernels::PrefillMethod* const> methods,
                       const std::stop_token& stop);

}  // namespace headscope::analysis
