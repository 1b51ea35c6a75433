// SPDX-License-Identifier: Apache-2.0
#include "exact_mass.h"

#include <span>
#include <utility>

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

Status SelectByExactMass(const AttentionProblem& problem, const RunOptions& options,
                         const std::vector<ChooseByMass>& choices, std::vector<SparseIndex>* indices) {
  std::vector<std::vector<float>> mass_of_rows(static_cast<size_t>((problem.seq_q + kOracleBlock - 1) / kOracleBlock));
  const auto sum = [&](const QueryBlock& rows, const std::vector<float>& mass, std::vector<int32_t>*) {
    mass_of_rows[static_cast<size_t>(rows.number)] = mass;
  };
  SparseIndex nothing;
  if (Status status = SelectByExactMass(problem, options, sum, &nothing); !status.ok()) return status;
  std::vector<SparseIndex> made(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto add_lists = [&](const HeadGroup&, SparseIndexBuilder* builder) {
      AddBlockLists(
          problem, options, kOracleBlock, kOracleBlock,
          [&](const QueryBlock& rows, std::vector<int32_t>* blocks) {
            choices[i](rows, mass_of_rows[static_cast<size_t>(rows.number)], blocks);
          },
          builder);
    };
    if (Status status = SelectByHead(problem, options, add_lists, &made[i]); !status.ok()) return status;
  }
  *indices = std::move(made);
  return {};
}

}  // namespace headscope::kernels::internal
