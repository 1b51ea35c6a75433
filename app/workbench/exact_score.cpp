// SPDX-License-Identifier: Apache-2.0
#include "exact_score.h"

#include <limits>

#include "analysis/tiles.h"

namespace headscope::app {

ui::Exact ExactScoreOf(const analysis::HeadTensorsPtr& head, int64_t row, int64_t column) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  if (!head || row < 0 || row >= head->num_rows || column < 0 || column >= head->num_tokens)
    return {.probability = kUnknown, .score = kUnknown};
  const double score = analysis::Score(*head, row, column);
  const int32_t position = head->row_positions[static_cast<size_t>(row)];
  return {analysis::Probability(*head, row, column), score, column <= position,
          column >= head->AttendedColumns(row).begin};
}

}  // namespace headscope::app
