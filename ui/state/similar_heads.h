// SPDX-License-Identifier: Apache-2.0
// How alike the patterns of two heads are. Pure.
#pragma once

#include "analysis/types/head_statistics.h"

namespace headscope::ui {

// From this on heads are called alike: on the shipped trace, about the tenth of all pairs that are the closest.
inline constexpr double kAlike = 0.95;

// 0 to 1: the overlap (Bhattacharyya coefficient, the sum of sqrt(p q)) of where the two heads' mass lies by key
// position, times the same by distance from the query. 1 for heads whose columns and slashes are the same, whichever
// query they serve; 0 where either has none. NaN for profiles of different traces, whose bins are not the same.
double PatternLikeness(const analysis::HeadStatistics& a, const analysis::HeadStatistics& b);

}  // namespace headscope::ui
