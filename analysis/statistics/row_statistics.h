// SPDX-License-Identifier: Apache-2.0
// Runs the registered statistics of rows (analysis/types/row_statistic.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/statistics.h"
#include "analysis/types/row_statistic.h"
#include "statistics/row_block_pass.h"

namespace headscope::analysis {

// Which of `num_rows` rows the statistics that sample look at (RowStatistic::samples_rows).
std::vector<uint8_t> SampledRows(int64_t num_rows);

// Of a head whose other numbers a GPU made: which statistics of rows the CPU computed from scores of its own, because
// they read every probability of a row and no kernel makes them; empty when there is none such.
std::string CpuStatisticsNote(const std::vector<const RowStatistic*>& statistics);

// Fills entry `entry` of table->row_statistics from row `row` of the head, its probabilities (empty: not computed) and
// table->rows[entry].
void FillRowStatistics(const HeadTensors& head, int64_t row, const RowExtent& extent, std::span<const float> p,
                       size_t entry, RowTable* table);

// The same of every row of `blocks` where a GPU made the table's other numbers: from q alone, and of rows at whose
// probabilities a statistic looks, from scores of `keys`, the head's, that are computed here. `logits`: of the sampled
// ones. Throws CancelledError.
void FillRowStatisticsOfHead(const HeadTensors& head, const StatisticsOptions& options,
                             std::span<const RowBlock> blocks, const kernels::PackedKeys& keys, RowTable* table,
                             LogitsByDistance* logits);

}  // namespace headscope::analysis
