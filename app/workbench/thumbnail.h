// SPDX-License-Identifier: Apache-2.0
// What the window shows of a head without its whole map: one query's attention, and the map at a glance.
#pragma once

#include <stop_token>
#include <vector>

#include "analysis/head_tensors.h"
#include "ui/workbench.h"

namespace headscope::app {

// The probability of every key of the trace in recorded row `row`, [num_tokens]; 0 outside of what the row attends to.
// Throws UsageError for a row that was not recorded; a stopped call ends early, with 0 for the rest.
std::vector<float> RowProbabilities(const analysis::HeadTensors& head, int64_t row, const std::stop_token& stop);

// Cost: one pass over the keys for each of at most kRowsPerPixel * Thumbnail::kSide queries, so it grows with the
// length and not with its square. The queries are spaced evenly. A stopped call ends early.
ui::ThumbnailPtr MakeThumbnail(const analysis::HeadTensors& head, const std::stop_token& stop);

inline constexpr int64_t kRowsPerPixel = 3;

}  // namespace headscope::app
