// SPDX-License-Identifier: Apache-2.0
// The best key columns by exact attention: an upper bound for every method that gathers columns.
//
// The k keys to which a tile of 128 query rows gives the largest exact mass, chosen anew for every tile (the tile whose
// rows share a list in headscope's executors): no other choice of k keys for the tile keeps more mass on average over
// its rows. MInference's "top-k columns" (section 2.1, k = 4096) chooses once for a head; row by row, statistics of
// sparsity say what could be kept. It costs as much as dense attention; no claim of speed is made.
#include <algorithm>
#include <span>

#include "head_groups.h"
#include "line_sums.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec OracleTopKSpec() {
  return {
      .name = "oracle-top-k",
      .title = "Oracle top-k",
      .family = "oracle",
      .paper =
          "MInference 1.0: Accelerating Pre-filling for Long-Context LLMs via Dynamic Sparse Attention, section 2.1 "
          "(its k; here chosen per tile of rows)",
      .summary = "Keeps, per tile of 128 queries, the k keys with the largest exact attention mass.",
      .always_keeps = "nothing",
      .selection_cost = "exact scores of every pair: as much as dense attention",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters = {{.name = "k",
                      .default_value = 4096,
                      .minimum = 1,
                      .maximum = 1 << 20,
                      .step = 64,
                      .logarithmic = true,
                      .unit = Unit::kColumns,
                      .help = "keys kept per tile of 128 query rows",
                      .cost = "one more pair per row and key",
                      .role = ParameterRole::kBudget,
                      .scaled_floor = 64}},
  };
}

class OracleTopKMethod final : public internal::PrefillSelector {
 public:
  OracleTopKMethod() : PrefillSelector(OracleTopKSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const int32_t tile_rows = internal::IndexShape(problem).tile_rows;
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const PackedKeys keys = internal::PackVisibleKeys(problem, group.sequence, group.kv_head);
          internal::LineProbe probe(problem, options);
          internal::LineSums sums;
          for (int32_t i = 0; i < group.num_heads; ++i) {
            for (int32_t row = 0; row < problem.seq_q; row += tile_rows) {
              const int32_t end = std::min(row + tile_rows, problem.seq_q);
              probe.SumColumns(keys, group.sequence, group.first_head + i, row, end, /*lse=*/nullptr, &sums);
              if (options.stop.stop_requested()) return;
              const auto seen = static_cast<size_t>(int64_t{problem.first_position} + end);
              for (const int32_t column :
                   internal::TopK(std::span<const float>(sums.columns).first(seen), values.Integer("k")))
                builder->AddColumn(column);
              builder->FinishList();
            }
          }
        },
        index);
  }
};

}  // namespace

const PrefillMethod& OracleTopK() {
  static const OracleTopKMethod method;
  return method;
}

}  // namespace headscope::kernels
