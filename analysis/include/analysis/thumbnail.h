// SPDX-License-Identifier: Apache-2.0
// What is shown of a head without its whole map: one query's attention, and the map at a glance.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "analysis/head_tensors.h"

namespace headscope::analysis {

// The probability of every key of the trace in recorded row `row`, [num_tokens]; 0 outside of what the row attends to.
// Throws UsageError for a row that was not recorded, and CancelledError.
std::vector<float> RowProbabilities(const HeadTensors& head, int64_t row, const std::stop_token& stop);

// log2 p, [side, side], queries downwards: each pixel is the largest of its keys in a few of its queries, -inf where no
// sampled query has a key. Cost: one pass over the keys for each of at most kThumbnailRowsPerPixel * side queries, so
// it grows with the length and not with its square. The queries are spaced evenly. Throws CancelledError.
std::vector<float> ComputeThumbnail(const HeadTensors& head, int64_t side, const std::stop_token& stop);

inline constexpr int64_t kThumbnailRowsPerPixel = 3;

}  // namespace headscope::analysis
