// SPDX-License-Identifier: Apache-2.0
// MInference vertical-slash: the columns and diagonals that carry most mass in the last query rows.
//
// Source: MInference 1.0, Algorithms 2 and 4. Column and diagonal sums of the exact softmax of the last `last_q` rows;
// the best n_vertical columns and n_slash diagonals. The lists that these make: line_lists.h. The released code puts
// the first 30 columns and the last 100 diagonals among them (`forced_columns`, `forced_slashes`); the paper does not.
#include <algorithm>
#include <cmath>
#include <limits>

#include "head_groups.h"
#include "line_lists.h"
#include "line_sums.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kBlockRows = internal::kLineBlockRows;

MethodSpec VerticalSlashSpec() {
  return {
      .name = "vertical-slash",
      .title = "MInference vertical-slash",
      .family = "dynamic pattern",
      .paper =
          "MInference 1.0: Accelerating Pre-filling for Long-Context LLMs via Dynamic Sparse Attention, Algorithms 2 "
          "and 4",
      .summary = "Keeps the columns and slashes that carry the most attention in the last query rows.",
      .always_keeps = "forced_columns first columns and forced_slashes nearest slashes; at 0, the default, nothing",
      .selection_cost =
          "exact scores of the last last_q rows, 2 last_q S d FLOPs, and the order of S columns and S slashes, once a "
          "head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .minference = {.name = "vertical_and_slash",
                     .first = "n_vertical",
                     .second = "n_slash",
                     .as_published = "forced_columns=30,forced_slashes=100",
                     .least_first = 30,
                     .least_second = 50},
      .parameters =
          {
              {.name = "n_vertical",
               .default_value = 500,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 50,
               .logarithmic = true,
               .unit = Unit::kColumns,
               .help = "columns kept (the paper's search starts from 30, 100, 500 and 3000)",
               .cost = "each column is gathered by every row block",
               .role = ParameterRole::kBudget,
               .scaled_floor = 32},
              {.name = "n_slash",
               .default_value = 1500,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 50,
               .logarithmic = true,
               .unit = Unit::kSlashes,
               .help = "slashes kept (the paper's search starts from 2048, 1800, 1500 and 200)",
               .cost = "an isolated slash costs 64 columns per row block, one next to another a single column",
               .role = ParameterRole::kBudget,
               .scaled_floor = 32},
              {.name = "last_q",
               .default_value = 64,
               .minimum = 1,
               .maximum = 1024,
               .step = 16,
               .unit = Unit::kRows,
               .help = "last query rows that the estimate reads",
               .cost = "selection takes proportionally longer"},
              {.name = "forced_columns",
               .default_value = 0,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 1,
               .unit = Unit::kColumns,
               .help = "first columns that are always among n_vertical (the released code: 30)",
               .cost = "takes places from columns with more mass"},
              {.name = "forced_slashes",
               .default_value = 0,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 1,
               .unit = Unit::kSlashes,
               .help = "nearest slashes that are always among n_slash (the released code: 100)",
               .cost = "takes places from slashes with more mass"},
          },
  };
}

// The first `forced` lines come before all others.
void ForceFirst(std::vector<float>* sums, int32_t forced) {
  const size_t num_forced = std::min(static_cast<size_t>(forced), sums->size());
  std::fill_n(sums->begin(), num_forced, std::numeric_limits<float>::infinity());
}

// The best `count` lines.
std::vector<int32_t> PickLines(std::vector<float>* sums, int32_t count, int32_t forced) {
  ForceFirst(sums, forced);
  return internal::TopK(*sums, count);
}

// The place of the least of ascending `counts` that keeps a line, for every line. Forced ones first, as PickLines has
// it.
std::vector<int32_t> EntryOfLines(std::vector<float>* sums, int32_t forced, std::span<const double> counts) {
  ForceFirst(sums, forced);
  const std::vector<int32_t> ranking = internal::Ranking(*sums);
  std::vector<int32_t> entries(ranking.size());
  size_t place = 0;
  for (size_t rank = 0; rank < ranking.size(); ++rank) {
    while (place < counts.size() && counts[place] <= static_cast<double>(rank)) ++place;
    entries[static_cast<size_t>(ranking[rank])] = static_cast<int32_t>(place);
  }
  return entries;
}

class VerticalSlashEntries final : public BudgetEntries {
 public:
  VerticalSlashEntries(int32_t first_position, std::vector<int32_t> columns, const std::vector<int32_t>& slashes,
                       int32_t no_slash)
      : BudgetEntries(kBlockRows), first_position_(first_position), columns_(std::move(columns)) {
    // The columns that lie `back` before a block's first position are those of diagonals back .. back + 63: the least
    // entry among these, by a queue of candidates with ascending entries.
    const auto num_slashes = static_cast<int32_t>(slashes.size());
    slash_entry_.assign(columns_.size() + kBlockRows, no_slash);
    std::vector<int32_t> queue;
    size_t head = 0;
    for (int32_t last = 0; last < num_slashes + kBlockRows - 1; ++last) {
      if (last < num_slashes) {
        while (queue.size() > head && At(slashes, queue.back()) >= At(slashes, last)) queue.pop_back();
        queue.push_back(last);
      }
      const int32_t back = last - (kBlockRows - 1);
      while (queue[head] < back) ++head;
      slash_entry_[static_cast<size_t>(last)] = At(slashes, queue[head]);
    }
  }

  void AppendRuns(int32_t block, std::vector<EntryRun>* runs) const override {
    const int32_t position = first_position_ + block * kBlockRows;
    const int32_t end = std::min(position + kBlockRows, static_cast<int32_t>(columns_.size()));
    for (int32_t column = 0; column < end; ++column) {
      AppendEntryRun(column, column + 1, At(columns_, column), At(slash_entry_, position - column + kBlockRows - 1),
                     runs);
    }
  }

 private:
  static int32_t At(const std::vector<int32_t>& list, int32_t index) { return list[static_cast<size_t>(index)]; }

  const int32_t first_position_;
  const std::vector<int32_t> columns_;  // entry of each
  std::vector<int32_t> slash_entry_;    // [position of the block's first row - column + 63]
};

class VerticalSlashMethod final : public internal::PrefillSelector {
 public:
  VerticalSlashMethod() : PrefillSelector(VerticalSlashSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const int32_t first_probed = std::max(0, problem.seq_q - values.Integer("last_q"));
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const PackedKeys keys = internal::PackVisibleKeys(problem, group.sequence, group.kv_head);
          internal::LineProbe probe(problem, options);
          internal::LineSums sums;
          for (int32_t i = 0; i < group.num_heads; ++i) {
            probe.Sum(keys, group.sequence, group.first_head + i, first_probed, problem.seq_q, &sums);
            if (options.stop.stop_requested()) return;
            const std::vector<int32_t> columns =
                PickLines(&sums.columns, values.Integer("n_vertical"), values.Integer("forced_columns"));
            const std::vector<int32_t> slashes =
                PickLines(&sums.slashes, values.Integer("n_slash"), values.Integer("forced_slashes"));
            internal::AddLineLists(problem, options, columns, slashes, builder);
          }
        },
        index);
  }
  std::unique_ptr<BudgetEntries> Enter(const AttentionProblem& problem, const ParameterValues& values,
                                       std::span<const double> first, std::span<const double> second,
                                       const RunOptions& options) const override {
    const int32_t first_probed = std::max(0, problem.seq_q - values.Integer("last_q"));
    internal::LineSums sums;
    internal::LineProbe(problem, options)
        .Sum(internal::PackVisibleKeys(problem, 0, 0), 0, 0, first_probed, problem.seq_q, &sums);
    if (options.stop.stop_requested()) return nullptr;
    return std::make_unique<VerticalSlashEntries>(
        problem.first_position, EntryOfLines(&sums.columns, values.Integer("forced_columns"), first),
        EntryOfLines(&sums.slashes, values.Integer("forced_slashes"), second), static_cast<int32_t>(second.size()));
  }
};

// MInference's ablation with indices that were not found on the rows at hand: the lines that rows elsewhere in the
// prompt chose. Keys behind those rows cannot be chosen by column.
MethodSpec MakeStaticSpec() {
  MethodSpec spec = VerticalSlashSpec();
  spec.name = "static-index";
  spec.title = "Static indices";
  spec.family = "ablation";
  spec.minference = {};
  spec.paper =
      "MInference 1.0: Accelerating Pre-filling for Long-Context LLMs via Dynamic Sparse Attention, section 4.3";
  spec.selection_cost = "that of vertical-slash, by rows elsewhere";
  spec.summary = "Vertical-slash with the lines that rows elsewhere in the prompt chose.";
  // Later columns cannot be chosen, so no budget keeps everything.
  for (ParameterSpec& parameter : spec.parameters) parameter.role = ParameterRole::kOther;
  spec.parameters.push_back(
      {.name = "at",
       .type = ParameterType::kReal,
       .default_value = 0.5,
       .step = 0.1,
       .help = "position in the prompt of the rows that select, as a share of its length (1: vertical-slash)",
       .cost = "nothing"});
  return spec;
}

class StaticIndexMethod final : public internal::PrefillSelector {
 public:
  StaticIndexMethod() : PrefillSelector(MakeStaticSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const auto end =
        static_cast<int32_t>(std::clamp<int64_t>(std::llround(values.Real("at") * problem.seq_q), 1, problem.seq_q));
    const int32_t begin = std::max(0, end - values.Integer("last_q"));
    const auto seen = static_cast<size_t>(int64_t{problem.first_position} + end);
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const PackedKeys keys = internal::PackVisibleKeys(problem, group.sequence, group.kv_head);
          internal::LineProbe probe(problem, options);
          internal::LineSums sums;
          for (int32_t i = 0; i < group.num_heads; ++i) {
            probe.Sum(keys, group.sequence, group.first_head + i, begin, end, &sums);
            if (options.stop.stop_requested()) return;
            sums.columns.resize(seen);
            sums.slashes.resize(seen);
            const std::vector<int32_t> columns =
                PickLines(&sums.columns, values.Integer("n_vertical"), values.Integer("forced_columns"));
            const std::vector<int32_t> slashes =
                PickLines(&sums.slashes, values.Integer("n_slash"), values.Integer("forced_slashes"));
            internal::AddLineLists(problem, options, columns, slashes, builder);
          }
        },
        index);
  }
};

}  // namespace

const PrefillMethod& VerticalSlash() {
  static const VerticalSlashMethod method;
  return method;
}

const PrefillMethod& StaticIndex() {
  static const StaticIndexMethod method;
  return method;
}

}  // namespace headscope::kernels
