// SPDX-License-Identifier: Apache-2.0
// The layer x head matrix as inline SVG.
#pragma once

#include <string>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

std::string EscapeHtml(const std::string& text);

// One cell per head, coloured by `metric`, with all metrics in its tooltip; where there is room the value is written in
// the cell. Below it the scale. The classes mid, end, cell and dim of the page's style place and ink its text.
std::string MatrixSvg(const std::vector<HeadStatistics>& statistics, const MetricInfo& metric, double cell_width,
                      double cell_height);

}  // namespace headscope::analysis
