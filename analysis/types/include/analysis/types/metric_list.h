// SPDX-License-Identifier: Apache-2.0
// The metrics of statistics that were computed with other targets and budgets than the default ones.
#pragma once

#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

// All metrics of one head, in the tables' order: Metrics(), but with those entries of `sparsity` and `agreement` that
// the head has, whatever their targets, r and k, in the place of the default ones. MetricValue() knows each by name.
// Statistics without such entries (of a table without rows, say) have the default ones.
std::vector<MetricInfo> MetricsOf(const HeadStatistics& statistics);

}  // namespace headscope::analysis
