// SPDX-License-Identifier: Apache-2.0
#include "analysis/thumbnail.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/tiles.h"
#include "base/errors.h"
#include "base/stop.h"

namespace headscope::analysis {

std::vector<float> RowProbabilities(const HeadTensors& head, int64_t row, const std::stop_token& stop) {
  if (row < 0 || row >= head.num_rows)
    throw UsageError({.field = "row",
                      .value = std::to_string(row),
                      .problem = "it was not recorded",
                      .remedy = "choose one below " + std::to_string(head.num_rows)});
  std::vector<float> probabilities(static_cast<size_t>(head.num_tokens), 0.0f);
  const kernels::ColumnRange attended = head.AttendedColumns(row);
  for (int32_t column = attended.begin; column < attended.end; ++column) {
    StopIfAsked(stop);
    probabilities[static_cast<size_t>(column)] = static_cast<float>(Probability(head, row, column));
  }
  return probabilities;
}

std::vector<float> ComputeThumbnail(const HeadTensors& head, int64_t side, const std::stop_token& stop) {
  std::vector<float> log2_p(static_cast<size_t>(side * side), -std::numeric_limits<float>::infinity());
  if (head.num_rows == 0 || head.num_tokens == 0) return log2_p;
  const int64_t samples = std::min(side * kThumbnailRowsPerPixel, head.num_rows);
  for (int64_t sample = 0; sample < samples; ++sample) {
    // The middle of each of as many equal parts.
    const int64_t row = (2 * sample + 1) * head.num_rows / (2 * samples);
    const int64_t y = row * side / head.num_rows;
    const std::vector<float> probabilities = RowProbabilities(head, row, stop);
    const kernels::ColumnRange attended = head.AttendedColumns(row);
    for (int64_t column = attended.begin; column < attended.end; ++column) {
      float& pixel = log2_p[static_cast<size_t>(y * side + column * side / head.num_tokens)];
      pixel = std::max(pixel, std::log2(probabilities[static_cast<size_t>(column)]));
    }
  }
  return log2_p;
}

}  // namespace headscope::analysis
