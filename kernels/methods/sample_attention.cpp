// SPDX-License-Identifier: Apache-2.0
// SampleAttention: column and diagonal stripes of 128 that carry a share of the mass of a few sampled rows.
//
// Source: SampleAttention, section 4 and Algorithm 1. The rows are cut into chunk_n chunks; the last 128 rows of each
// are probed exactly. Their mass is summed per column and per diagonal, reduced to stripes of 128, and each direction
// keeps the fewest stripes that reach its share (alpha_c, alpha_s). The picks of all chunks and both directions are
// joined over the whole matrix, causally, in blocks of 128 x 128.
//
// Choices where the paper is silent: shares are of the direction's own total; picks are made per chunk and then joined
// (own_rows_only keeps each chunk's picks to its rows); a diagonal stripe marks every key block that it touches; a
// share of 1 keeps all stripes whatever rounding does; chunks shorter than 128 rows are probed whole, once. The shares
// bound sampled sums, not the mass of any single row. The paper tunes the three for every range of lengths (Table 6);
// `by_length` takes one of its four columns, and lengths in units of 1024 tokens.
#include <algorithm>

#include "head_groups.h"
#include "internal/method_choices.h"
#include "kernels/prompt_passes.h"
#include "line_sums.h"
#include "mass_share.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kSampledBlock = 128;

ParameterSpec MassShare(ParameterSpec spec) {
  spec.type = ParameterType::kReal;
  spec.default_value = 0.95;
  spec.step = 0.01;
  spec.unit = Unit::kShareOfMass;
  spec.role = ParameterRole::kMassShare;
  return spec;
}

MethodSpec SampleAttentionSpec() {
  return {
      .name = "sample-attention",
      .title = "SampleAttention",
      .family = "dynamic pattern",
      .paper =
          "SampleAttention: Near-Lossless Acceleration of Long Context LLM Inference with Adaptive Structured "
          "Sparse Attention, section 4",
      .summary = "Keeps the column and slash stripes of 128 that reach a share of the mass of sampled rows.",
      .always_keeps = "nothing, unless keep_diagonal is on",
      .selection_cost =
          "exact scores of 128 rows of every chunk, 256 chunk_n S d FLOPs, and the order of S / 128 stripes in two "
          "directions, a head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters =
          {
              MassShare({.name = "alpha_c",
                         .help = "share of the sampled mass that the kept columns reach (GLM4 at 16K to 48K: 0.95)",
                         .cost = "more columns, more work"}),
              MassShare({.name = "alpha_s",
                         .help = "share of the sampled mass that the kept slashes reach (GLM4 at 16K to 48K: 0.95)",
                         .cost = "more slashes, more work"}),
              {.name = "chunk_n",
               .default_value = 1,
               .minimum = 1,
               .maximum = 64,
               .unit = Unit::kChunks,
               .help = "regions of rows, each probed by its last 128 rows",
               .cost = "selection takes proportionally longer; more stripes are found"},
              {.name = "own_rows_only",
               .type = ParameterType::kFlag,
               .help = "apply a chunk's stripes to the chunk's own rows instead of to all rows",
               .cost = "rows of other chunks keep less"},
              {.name = "keep_diagonal",
               .type = ParameterType::kFlag,
               .help = "always keep the diagonal blocks (not in the paper)",
               .cost = "one more block per row block"},
              {.name = "by_length",
               .type = ParameterType::kChoice,
               .maximum = 4,
               .help = "use alpha_c, alpha_s and chunk_n as the paper tuned them for the prompt's length (Table 6)",
               .cost = "nothing",
               .choices = {"off", "glm4", "glm4-fast", "internlm2", "internlm2-fast"}},
          },
  };
}

// What one chunk chose, as stripe numbers, and the rows that it chose for.
struct ChunkPicks {
  int32_t row_begin = 0;
  int32_t row_end = 0;
  std::vector<int32_t> column_stripes;
  std::vector<int32_t> slash_stripes;
};

// The mass of stripes of 128 lines, best first.
internal::RankedMass RankStripes(const std::vector<float>& line_sums) {
  return internal::RankMass(internal::StripeSums(line_sums, kSampledBlock));
}

// The stripes that a share keeps, ascending.
std::vector<int32_t> PickStripes(const std::vector<float>& line_sums, double share) {
  return internal::TopShare(internal::StripeSums(line_sums, kSampledBlock), share);
}

// The place of the least of ascending `shares` that keeps a stripe, for every stripe.
std::vector<int32_t> EntryOfStripes(const std::vector<float>& line_sums, std::span<const double> shares) {
  const internal::RankedMass ranked = RankStripes(line_sums);
  std::vector<int32_t> entries(ranked.ranking.size());
  size_t place = 0;
  for (size_t rank = 0; rank < entries.size(); ++rank) {
    while (place < shares.size() && !ranked.Keeps(rank, shares[place])) ++place;
    entries[static_cast<size_t>(ranked.ranking[rank])] = static_cast<int32_t>(place);
  }
  return entries;
}

// Ends of the chunks, rounded to whole rows; the last one is seq_q.
int32_t ChunkEnd(int32_t seq_q, int32_t num_chunks, int32_t chunk) {
  return static_cast<int32_t>((int64_t{seq_q} * (chunk + 1) + num_chunks / 2) / num_chunks);
}

// Calls take(row_begin, row_end, sums) with every chunk's probe, until cancelled.
template <typename Take>
void ProbeChunks(const AttentionProblem& problem, int32_t chunk_n, const RunOptions& options, const PackedKeys& keys,
                 int32_t sequence, int32_t head, internal::LineProbe* probe, internal::LineSums* sums, Take&& take) {
  const int32_t num_chunks = std::min(chunk_n, problem.seq_q);
  int32_t row_begin = 0;
  for (int32_t chunk = 0; chunk < num_chunks; ++chunk) {
    const int32_t row_end = ChunkEnd(problem.seq_q, num_chunks, chunk);
    probe->Sum(keys, sequence, head, std::max(row_begin, row_end - kSampledBlock), row_end, sums);
    if (options.stop.stop_requested()) return;
    take(row_begin, row_end, *sums);
    row_begin = row_end;
  }
}

class SampleAttentionHead {
 public:
  SampleAttentionHead(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options)
      : problem_(problem),
        values_(values),
        settings_(internal::SampleSettingsOf(values, internal::NumVisibleKeys(problem))),
        options_(options),
        probe_(problem, options) {}

  void AddLists(const PackedKeys& keys, int32_t sequence, int32_t head, SparseIndexBuilder* builder) {
    PickChunks(keys, sequence, head);
    for (int32_t row = 0; row < problem_.seq_q && !options_.stop.stop_requested(); row += kSampledBlock) {
      const int32_t end_row = std::min(row + kSampledBlock, problem_.seq_q);
      const int64_t first = int64_t{problem_.first_position} + row;
      const int64_t last = int64_t{problem_.first_position} + end_row - 1;
      for (const ChunkPicks& picks : chunks_) {
        if (values_.Flag("own_rows_only") && (picks.row_end <= row || picks.row_begin >= end_row)) continue;
        AddStripes(picks, first, builder);
      }
      if (values_.Flag("keep_diagonal")) builder->AddRange(first / kSampledBlock * kSampledBlock, last + 1);
      builder->FinishList();
    }
  }

 private:
  void PickChunks(const PackedKeys& keys, int32_t sequence, int32_t head) {
    chunks_.clear();
    ProbeChunks(problem_, settings_.chunk_n, options_, keys, sequence, head, &probe_, &sums_,
                [&](int32_t row_begin, int32_t row_end, const internal::LineSums& sums) {
                  chunks_.push_back({row_begin, row_end, PickStripes(sums.columns, settings_.alpha_c),
                                     PickStripes(sums.slashes, settings_.alpha_s)});
                });
  }

  static void AddStripes(const ChunkPicks& picks, int64_t first_position, SparseIndexBuilder* builder) {
    for (const int64_t stripe : picks.column_stripes)
      builder->AddRange(stripe * kSampledBlock, (stripe + 1) * kSampledBlock);
    for (const int64_t stripe : picks.slash_stripes) {
      internal::TakeSlashStripe(stripe, kSampledBlock, first_position,
                                [&](int64_t begin, int64_t end) { builder->AddRange(begin, end); });
    }
  }

  const AttentionProblem& problem_;
  const ParameterValues& values_;
  const internal::SampleSettings settings_;
  const RunOptions& options_;
  internal::LineProbe probe_;
  internal::LineSums sums_;
  std::vector<ChunkPicks> chunks_;
};

// The same of all shares at once: key blocks and the places of the shares that take them.
class SampleAttentionEntries final : public BudgetEntries {
 public:
  struct Chunk {
    int32_t row_begin = 0;
    int32_t row_end = 0;
    std::vector<int32_t> column_entries, slash_entries;  // by stripe
  };
  SampleAttentionEntries(const AttentionProblem& problem, const ParameterValues& values, std::vector<Chunk> chunks,
                         size_t num_first, size_t num_second)
      : BudgetEntries(kSampledBlock),
        first_position_(problem.first_position),
        num_rows_(problem.seq_q),
        own_rows_only_(values.Flag("own_rows_only")),
        keep_diagonal_(values.Flag("keep_diagonal")),
        chunks_(std::move(chunks)),
        never_first_(static_cast<int32_t>(num_first)),
        never_second_(static_cast<int32_t>(num_second)) {}

  void AppendRuns(int32_t block, std::vector<EntryRun>* runs) const override {
    const int32_t row = block * kSampledBlock;
    const int32_t end_row = std::min(row + kSampledBlock, num_rows_);
    const int64_t first = int64_t{first_position_} + row;
    const auto num_blocks = static_cast<size_t>((first + end_row - row - 1) / kSampledBlock + 1);
    std::vector<int32_t> by_column(num_blocks, never_first_), by_slash(num_blocks, never_second_);
    for (const Chunk& chunk : chunks_) {
      if (own_rows_only_ && (chunk.row_end <= row || chunk.row_begin >= end_row)) continue;
      for (size_t stripe = 0; stripe < std::min(num_blocks, chunk.column_entries.size()); ++stripe)
        by_column[stripe] = std::min(by_column[stripe], chunk.column_entries[stripe]);
      for (size_t stripe = 0; stripe < chunk.slash_entries.size(); ++stripe) {
        internal::TakeSlashStripe(static_cast<int64_t>(stripe), kSampledBlock, first, [&](int64_t begin, int64_t end) {
          const auto last = std::min(static_cast<size_t>(end / kSampledBlock), num_blocks);
          for (auto taken = static_cast<size_t>(begin / kSampledBlock); taken < last; ++taken)
            by_slash[taken] = std::min(by_slash[taken], chunk.slash_entries[stripe]);
        });
      }
    }
    if (keep_diagonal_) {
      for (auto taken = static_cast<size_t>(first / kSampledBlock); taken < num_blocks; ++taken) by_column[taken] = 0;
    }
    for (size_t column = 0; column < num_blocks; ++column) {
      const auto begin = static_cast<int32_t>(column) * kSampledBlock;
      AppendEntryRun(begin, begin + kSampledBlock, by_column[column], by_slash[column], runs);
    }
  }

 private:
  const int32_t first_position_, num_rows_;
  const bool own_rows_only_, keep_diagonal_;
  const std::vector<Chunk> chunks_;
  const int32_t never_first_, never_second_;
};

class SampleAttentionMethod final : public internal::PrefillSelector, public GoesByPromptLength {
 public:
  SampleAttentionMethod() : PrefillSelector(SampleAttentionSpec()) {}
  ParameterValues AtPromptLength(ParameterValues values, int64_t num_tokens) const override {
    const internal::SampleSettings settings = internal::SampleSettingsOf(values, num_tokens);
    values.Set(spec(), "alpha_c", settings.alpha_c);
    values.Set(spec(), "alpha_s", settings.alpha_s);
    values.Set(spec(), "chunk_n", settings.chunk_n);
    values.Set(spec(), "by_length", 0);
    return values;
  }

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const PackedKeys keys = internal::PackVisibleKeys(problem, group.sequence, group.kv_head);
          SampleAttentionHead selector(problem, values, options);
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i) {
            selector.AddLists(keys, group.sequence, group.first_head + i, builder);
          }
        },
        index);
  }
  std::unique_ptr<BudgetEntries> Enter(const AttentionProblem& problem, const ParameterValues& values,
                                       std::span<const double> first, std::span<const double> second,
                                       const RunOptions& options) const override {
    if (values.Integer("by_length") != 0) return nullptr;  // its budgets are the table's
    std::vector<SampleAttentionEntries::Chunk> chunks;
    internal::LineProbe probe(problem, options);
    internal::LineSums sums;
    ProbeChunks(problem, values.Integer("chunk_n"), options, internal::PackVisibleKeys(problem, 0, 0), 0, 0, &probe,
                &sums, [&](int32_t row_begin, int32_t row_end, const internal::LineSums& of_chunk) {
                  chunks.push_back({row_begin, row_end, EntryOfStripes(of_chunk.columns, first),
                                    EntryOfStripes(of_chunk.slashes, second)});
                });
    return std::make_unique<SampleAttentionEntries>(problem, values, std::move(chunks), first.size(), second.size());
  }
};

}  // namespace

const PrefillMethod& SampleAttention() {
  static const SampleAttentionMethod method;
  return method;
}

}  // namespace headscope::kernels
