// SPDX-License-Identifier: Apache-2.0
// Which metrics there are to show: those of a head whose statistics have other targets and budgets than the default
// ones, and those of a short table.
#pragma once

#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

// All metrics of one head, in the tables' order: Metrics(), but with those entries of `sparsity` and `agreement` that
// the head has, whatever their targets, r and k, in the place of the default ones. MetricValue() knows each by name.
// Statistics without such entries (of a table without rows, say) have the default ones.
std::vector<MetricInfo> MetricsOf(const HeadStatistics& statistics);

// Whether a short table shows the metric unasked; of_cut_trace: of a trace that was cut from a longer one.
bool IsShownUnasked(const MetricInfo& metric, bool of_cut_trace);

}  // namespace headscope::analysis
