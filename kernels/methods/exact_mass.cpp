// SPDX-License-Identifier: Apache-2.0
#include "exact_mass.h"

#include <span>

#include "head_groups.h"
#include "line_sums.h"
#include "mass_share.h"

namespace headscope::kernels::internal {

Status SelectByExactMass(const AttentionProblem& problem, const RunOptions& options, const ChooseByMass& choose,
                         SparseIndex* index) {
  return SelectByHead(
      problem, options,
      [&](const HeadGroup& group, SparseIndexBuilder* builder) {
        const PackedKeys keys = PackVisibleKeys(problem, group.sequence, group.kv_head);
        LineProbe probe(problem, options);
        LineSums sums;
        for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i) {
          AddBlockLists(
              problem, options, kOracleBlock, kOracleBlock,
              [&](const QueryBlock& rows, std::vector<int32_t>* blocks) {
                probe.SumColumns(keys, group.sequence, group.first_head + i, rows.row_begin, rows.row_end,
                                 /*lse=*/nullptr, &sums);
                const auto seen = static_cast<size_t>(rows.last_position + 1);
                choose(rows, StripeSums(std::span<const float>(sums.columns).first(seen), kOracleBlock), blocks);
              },
              builder);
        }
      },
      index);
}

}  // namespace headscope::kernels::internal
