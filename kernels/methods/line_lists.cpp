// SPDX-License-Identifier: Apache-2.0
#include "line_lists.h"

#include <algorithm>

namespace headscope::kernels::internal {

void AddLineLists(const AttentionProblem& problem, const RunOptions& options, const std::vector<int32_t>& columns,
                  const std::vector<int32_t>& slashes, SparseIndexBuilder* builder) {
  const int32_t tile_rows = 2 * kLineBlockRows;
  for (int32_t tile_row = 0; tile_row < problem.seq_q; tile_row += tile_rows) {
    if (options.stop.stop_requested()) return;
    const int64_t last_position = problem.first_position + std::min(tile_row + tile_rows, problem.seq_q) - 1;
    for (int32_t half = 0; half < 2; ++half) {
      const int64_t position = int64_t{problem.first_position} + tile_row + half * kLineBlockRows;
      const uint32_t half_flag = half == 0 ? kRunUpperHalf : kRunLowerHalf;
      // Farthest diagonal first: its columns are the leftmost. Ranges that touch are joined here, so that the builder
      // sees few.
      int64_t begin = 0;
      int64_t end = 0;
      for (auto slash = slashes.rbegin(); slash != slashes.rend(); ++slash) {
        const int64_t slash_begin = position - *slash;
        if (slash_begin > end) {
          builder->AddRange(begin, end, half_flag);
          begin = slash_begin;
        }
        end = std::max(end, slash_begin + kLineBlockRows);
      }
      builder->AddRange(begin, end, half_flag);
    }
    for (const int32_t column : columns) {
      if (column > last_position) break;
      builder->AddColumn(column);
    }
    builder->FinishList();
  }
}

}  // namespace headscope::kernels::internal
