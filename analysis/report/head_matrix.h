// SPDX-License-Identifier: Apache-2.0
// The layer x head matrix as inline SVG.
#pragma once

#include <string>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

std::string EscapeHtml(const std::string& text);

// One cell per head, coloured by `metric`, with all metrics in its tooltip; the metric's value is written in the cell
// when `numbers`. Below it the scale.
std::string HeadMatrixSvg(const std::vector<HeadStatistics>& statistics, const MetricInfo& metric, int32_t cell_width,
                          int32_t cell_height, bool numbers);

}  // namespace headscope::analysis
