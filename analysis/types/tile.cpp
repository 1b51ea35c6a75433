// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/tile.h"

#include <algorithm>
#include <cmath>

namespace headscope::analysis {

int32_t MaxLevel(int64_t num_rows, int64_t num_columns) {
  const int64_t longest = std::max(num_rows, num_columns);
  int32_t level = 0;
  while ((int64_t{kTileSize} << level) < longest) ++level;
  return level;
}

int32_t LevelForZoom(double scores_per_pixel, int64_t num_rows, int64_t num_columns) {
  const int32_t coarsest = MaxLevel(num_rows, num_columns);
  if (!(scores_per_pixel > 1)) return 0;
  // The guard against rounding keeps an exact power of two at its own level.
  const double level = std::ceil(std::log2(scores_per_pixel) - 1e-9);
  return static_cast<int32_t>(std::clamp(level, 0.0, static_cast<double>(coarsest)));
}

}  // namespace headscope::analysis
