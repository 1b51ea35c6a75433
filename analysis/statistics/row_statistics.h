// SPDX-License-Identifier: Apache-2.0
// Runs the registered statistics of rows (analysis/types/row_statistic.h).
#pragma once

#include <cstdint>
#include <span>

#include "analysis/head_tensors.h"
#include "analysis/statistics.h"
#include "statistics/row_block_pass.h"

namespace headscope::analysis {

// Fills entry `entry` of table->row_statistics from row `row` of the head and its probabilities.
void FillRowStatistics(const HeadTensors& head, int64_t row, std::span<const float> p, double outside_mass,
                       size_t entry, RowTable* table);

// The same of every row of `blocks` where a GPU made the table's other numbers: from q alone, and where a statistic
// reads probabilities, from scores that are computed here. table->rows holds outside_mass. False when cancelled.
bool FillRowStatisticsOfHead(const HeadTensors& head, const StatisticsOptions& options,
                             std::span<const RowBlock> blocks, RowTable* table);

}  // namespace headscope::analysis
