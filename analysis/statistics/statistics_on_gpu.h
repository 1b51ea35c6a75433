// SPDX-License-Identifier: Apache-2.0
// The numbers of every row, computed on the GPU that holds the head.
#pragma once

#include "analysis/head_tensors.h"
#include "analysis/statistics.h"
#include "kernels/status.h"
#include "statistics/mass_by_line.h"
#include "statistics/row_block_pass.h"

namespace headscope::analysis {

// Fills `table` and `lines` as the CPU's pass over all rows does; `blocks` are those of ChooseRows, and table->rows has
// an entry for each row. head.gpu is there. kUnsupported, with the reason, for what the GPU leaves to the CPU: rows
// that are sampled, and more targets or counts than it takes at once; kCancelled; errors of the GPU.
kernels::Status RunRowsOnGpu(const HeadTensors& head, const StatisticsOptions& options,
                             const std::vector<RowBlock>& blocks, RowTable* table, LineTotals* lines);

}  // namespace headscope::analysis
