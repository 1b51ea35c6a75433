// SPDX-License-Identifier: Apache-2.0
#include "thumbnail.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "analysis/tiles.h"
#include "base/errors.h"

namespace headscope::app {

std::vector<float> RowProbabilities(const analysis::HeadTensors& head, int64_t row, const std::stop_token& stop) {
  if (row < 0 || row >= head.num_rows)
    throw UsageError("Row " + std::to_string(row) + " was not recorded: choose one below " +
                     std::to_string(head.num_rows) + ".");
  std::vector<float> probabilities(static_cast<size_t>(head.num_tokens), 0.0f);
  const kernels::ColumnRange attended = head.AttendedColumns(row);
  for (int32_t column = attended.begin; column < attended.end && !stop.stop_requested(); ++column)
    probabilities[static_cast<size_t>(column)] = static_cast<float>(analysis::Probability(head, row, column));
  return probabilities;
}

ui::ThumbnailPtr MakeThumbnail(const analysis::HeadTensors& head, const std::stop_token& stop) {
  constexpr int64_t kSide = ui::Thumbnail::kSide;
  auto thumbnail = std::make_shared<ui::Thumbnail>();
  thumbnail->log2_p.assign(static_cast<size_t>(kSide * kSide), -std::numeric_limits<float>::infinity());
  if (head.num_rows == 0 || head.num_tokens == 0) return thumbnail;
  const int64_t samples = std::min(kSide * kRowsPerPixel, head.num_rows);
  for (int64_t sample = 0; sample < samples && !stop.stop_requested(); ++sample) {
    // The middle of each of as many equal parts.
    const int64_t row = (2 * sample + 1) * head.num_rows / (2 * samples);
    const int64_t y = row * kSide / head.num_rows;
    const std::vector<float> probabilities = RowProbabilities(head, row, stop);
    const kernels::ColumnRange attended = head.AttendedColumns(row);
    for (int64_t column = attended.begin; column < attended.end; ++column) {
      const int64_t x = column * kSide / head.num_tokens;
      float& pixel = thumbnail->log2_p[static_cast<size_t>(y * kSide + x)];
      pixel = std::max(pixel, std::log2(probabilities[static_cast<size_t>(column)]));
    }
  }
  return thumbnail;
}

}  // namespace headscope::app
