// SPDX-License-Identifier: Apache-2.0
// MoBA's gate: the key blocks whose mean key scores highest, and the query's own.
//
// Source: MoBA: Mixture of Block Attention for Long-Context LLMs, section 2.2. For every query its own block, and of
// the blocks before it the top_k - 1 with the largest q . mean(K). MoBA models are trained with this gate; on others it
// is a selector without training.
//
// A list of headscope's index belongs to 64 rows. `rows=union` keeps for all of them what any of them chose, so every
// row keeps what the paper says and what its neighbours chose; `rows=mean` asks the gate once, with their mean query.
#include <algorithm>
#include <vector>

#include "head_groups.h"
#include "internal/element.h"
#include "key_blocks.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kMobaRows = 64;
enum class Rows : uint8_t { kUnion, kMean };

MethodSpec MobaSpec() {
  return {
      .name = "moba",
      .title = "MoBA gate",
      .family = "dynamic pattern",
      .paper = "MoBA: Mixture of Block Attention for Long-Context LLMs, section 2.2",
      .summary =
          "Keeps the diagonal block and the earlier blocks whose mean key scores highest (the gate, without "
          "training).",
      .always_keeps = "the own block",
      .selection_cost =
          "the means of key blocks and the score of each for every query, 2 S^2 d / block_size FLOPs, a head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters =
          {
              {.name = "top_k",
               .default_value = 3,
               .minimum = 1,
               .maximum = 1 << 14,
               .step = 1,
               .logarithmic = true,
               .help = "key blocks per query, its own among them (the paper: 3 of 512 tokens, 12 of 4096 at 1M)",
               .cost = "block_size more pairs per row and block",
               .role = ParameterRole::kBudget},
              {.name = "block_size",
               .default_value = 512,
               .minimum = 16,
               .maximum = 1 << 16,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "keys of a block",
               .cost = "selection is faster but coarser",
               .scaled_floor = 64},
              {.name = "rows",
               .type = ParameterType::kChoice,
               .help = "how 64 rows share a list: what any of them selects, or what their mean query selects",
               .cost = "mean keeps less, and not all that each row selected",
               .choices = {"union", "mean"}},
          },
  };
}

class MobaMethod final : public internal::PrefillSelector {
 public:
  MobaMethod() : PrefillSelector(MobaSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const int32_t size = values.Integer("block_size"), picks = values.Integer("top_k") - 1;
    const bool by_mean = values.Choice<Rows>("rows") == Rows::kMean;
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const PackedKeys keys = internal::PoolVisibleKeys(problem, group.sequence, group.kv_head, size);
          std::vector<float> queries(static_cast<size_t>(kMobaRows * problem.head_dim)), scores;
          std::vector<bool> chosen;
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i) {
            const int64_t offset =
                group.sequence * problem.q.batch_stride + (group.first_head + i) * problem.q.head_stride;
            const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
              internal::AppendOwnBlocks(rows, size, blocks);
              const int32_t num_rows = rows.row_end - rows.row_begin;
              const int64_t first = offset + rows.row_begin * problem.q.row_stride;
              if (by_mean) {
                queries = internal::PoolRows(problem.q, problem.dtype, first, num_rows, problem.head_dim, kMobaRows);
              } else {
                for (int32_t row = 0; row < num_rows; ++row) {
                  internal::LoadRow(problem.q.data, problem.dtype, first + row * problem.q.row_stride, problem.head_dim,
                                    queries.data() + int64_t{row} * problem.head_dim);
                }
              }
              const int32_t num_scored = by_mean ? 1 : num_rows;
              // A row's own block is never scored: its mean holds keys that the row must not see.
              const int32_t past = static_cast<int32_t>((by_mean ? rows.first_position : rows.last_position) / size);
              if (past == 0 || picks == 0) return;
              scores.resize(static_cast<size_t>(int64_t{num_scored} * past));
              ScoreBlock(queries.data(), problem.head_dim, num_scored, keys, 0, past, 1.0f, 0.0f, scores.data(), past);
              chosen.assign(static_cast<size_t>(past), false);
              for (int32_t row = 0; row < num_scored; ++row) {
                const auto own = static_cast<size_t>((rows.first_position + row) / size);
                for (const int32_t block : internal::TopK({scores.data() + int64_t{row} * past, own}, picks))
                  chosen[static_cast<size_t>(block)] = true;
              }
              for (int32_t block = 0; block < past; ++block) {
                if (chosen[static_cast<size_t>(block)]) blocks->push_back(block);
              }
            };
            internal::AddBlockLists(problem, options, kMobaRows, size, choose, builder);
          }
        },
        index);
  }
};

}  // namespace

const PrefillMethod& Moba() {
  static const MobaMethod method;
  return method;
}

}  // namespace headscope::kernels
