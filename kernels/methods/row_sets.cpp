// SPDX-License-Identifier: Apache-2.0
#include "row_sets.h"

#include <algorithm>

#include "head_groups.h"

namespace headscope::kernels::internal {

void AddRowSets(const AttentionProblem& problem, const RunOptions& options, const MarkKeys& mark,
                SparseIndexBuilder* builder) {
  std::vector<char> kept(static_cast<size_t>(NumVisibleKeys(problem)));
  for (int32_t tile = 0; tile < problem.seq_q; tile += 2 * kRowsOfSet) {
    if (options.stop.stop_requested()) return;
    for (int32_t half = 0; half < 2; ++half) {
      const int32_t begin = tile + half * kRowsOfSet, end = std::min(begin + kRowsOfSet, problem.seq_q);
      if (begin >= end) break;
      std::fill(kept.begin(), kept.end(), 0);
      mark(begin, end, &kept);
      const int64_t last = int64_t{problem.first_position} + end;
      for (int64_t key = 0; key < last; ++key) {
        if (kept[static_cast<size_t>(key)] == 0) continue;
        const int64_t run = key;
        while (key < last && kept[static_cast<size_t>(key)] != 0) ++key;
        builder->AddRange(run, key, half == 0 ? kRunUpperHalf : kRunLowerHalf);
      }
    }
    builder->FinishList();
  }
}

}  // namespace headscope::kernels::internal
