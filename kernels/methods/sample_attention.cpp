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
// bound sampled sums, not the mass of any single row.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "head_groups.h"
#include "line_sums.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kBlock = 128;

MethodSpec MakeSpec() {
  MethodSpec spec;
  spec.name = "sample-attention";
  spec.title = "SampleAttention";
  spec.family = "dynamic pattern";
  spec.paper =
      "SampleAttention: Near-Lossless Acceleration of Long Context LLM Inference with Adaptive Structured Sparse "
      "Attention, section 4";
  spec.summary = "Keeps the column and diagonal stripes of 128 that reach a share of the mass of sampled rows.";
  spec.phase = Phase::kPrefill;
  spec.parameters = {
      {"alpha_c", ParameterType::kReal, 0.95, 0, 1, 0.01, false, "share of mass",
       "share of the sampled mass that the kept columns reach (GLM4 at 16K to 48K: 0.95)", "more columns, more work",
       ParameterRole::kMassShare},
      {"alpha_s", ParameterType::kReal, 0.95, 0, 1, 0.01, false, "share of mass",
       "share of the sampled mass that the kept diagonals reach (GLM4 at 16K to 48K: 0.95)",
       "more diagonals, more work", ParameterRole::kMassShare},
      {"chunk_n", ParameterType::kInteger, 1, 1, 64, 1, false, "chunks",
       "regions of rows, each probed by its last 128 rows",
       "selection time grows in proportion; more stripes are found"},
      {"own_rows_only", ParameterType::kFlag, 0, 0, 1, 1, false, "",
       "apply a chunk's stripes to the chunk's own rows instead of to all rows", "less is kept in other chunks"},
      {"keep_diagonal", ParameterType::kFlag, 0, 0, 1, 1, false, "",
       "always keep the diagonal blocks (not in the paper)", "one block per row block"},
  };
  return spec;
}

// What one chunk chose, as stripe numbers, and the rows that it chose for.
struct ChunkPicks {
  int32_t row_begin = 0;
  int32_t row_end = 0;
  std::vector<int32_t> column_stripes;
  std::vector<int32_t> slash_stripes;
};

// The fewest stripes of 128 lines whose mass reaches `share` of the total, ascending. Sums that are not finite (from
// NaN in Q or K) count as 0.
std::vector<int32_t> PickStripes(const std::vector<float>& line_sums, double share) {
  const size_t num_stripes = (line_sums.size() + kBlock - 1) / kBlock;
  std::vector<float> stripes(num_stripes);
  for (size_t stripe = 0; stripe < num_stripes; ++stripe) {
    const auto begin = line_sums.begin() + static_cast<int64_t>(stripe * kBlock);
    const auto end = line_sums.begin() + static_cast<int64_t>(std::min((stripe + 1) * kBlock, line_sums.size()));
    const double sum = std::accumulate(begin, end, 0.0);
    stripes[stripe] = std::isfinite(sum) ? static_cast<float>(sum) : 0.0f;
  }
  std::vector<int32_t> picked = internal::Ranking(stripes);
  if (share < 1.0) {
    const double target = share * std::accumulate(stripes.begin(), stripes.end(), 0.0);
    double reached = 0;
    size_t count = 0;
    while (count < picked.size() && reached < target)
      reached += static_cast<double>(stripes[static_cast<size_t>(picked[count++])]);
    picked.resize(count);
  }
  std::sort(picked.begin(), picked.end());
  return picked;
}

// Ends of the chunks, rounded to whole rows; the last one is seq_q.
int32_t ChunkEnd(int32_t seq_q, int32_t num_chunks, int32_t chunk) {
  return static_cast<int32_t>((int64_t{seq_q} * (chunk + 1) + num_chunks / 2) / num_chunks);
}

class HeadSelector {
 public:
  HeadSelector(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options)
      : problem_(problem), values_(values), options_(options), probe_(problem, options) {}

  void AddLists(const PackedKeys& keys, int32_t sequence, int32_t head, SparseIndexBuilder* builder) {
    PickChunks(keys, sequence, head);
    for (int32_t row = 0; row < problem_.seq_q && !internal::IsCancelled(options_); row += kBlock) {
      const int32_t end_row = std::min(row + kBlock, problem_.seq_q);
      const int64_t first = int64_t{problem_.first_position} + row;
      const int64_t last = int64_t{problem_.first_position} + end_row - 1;
      for (const ChunkPicks& picks : chunks_) {
        if (values_.Flag("own_rows_only") && (picks.row_end <= row || picks.row_begin >= end_row)) continue;
        AddStripes(picks, first, builder);
      }
      if (values_.Flag("keep_diagonal")) builder->AddRange(first / kBlock * kBlock, last + 1);
      builder->FinishList();
    }
  }

 private:
  void PickChunks(const PackedKeys& keys, int32_t sequence, int32_t head) {
    chunks_.clear();
    const int32_t num_chunks = std::min(values_.Integer("chunk_n"), problem_.seq_q);
    int32_t row_begin = 0;
    for (int32_t chunk = 0; chunk < num_chunks; ++chunk) {
      ChunkPicks picks;
      picks.row_begin = row_begin;
      picks.row_end = ChunkEnd(problem_.seq_q, num_chunks, chunk);
      probe_.Sum(keys, sequence, head, std::max(picks.row_begin, picks.row_end - kBlock), picks.row_end, &sums_);
      if (internal::IsCancelled(options_)) return;
      picks.column_stripes = PickStripes(sums_.columns, values_.Real("alpha_c"));
      picks.slash_stripes = PickStripes(sums_.slashes, values_.Real("alpha_s"));
      row_begin = picks.row_end;
      chunks_.push_back(std::move(picks));
    }
  }

  // Whole key blocks, whatever the position of the row block's first row.
  static void AddStripes(const ChunkPicks& picks, int64_t first_position, SparseIndexBuilder* builder) {
    const int64_t last_position = first_position + kBlock - 1;
    for (const int64_t stripe : picks.column_stripes) builder->AddRange(stripe * kBlock, (stripe + 1) * kBlock);
    for (const int64_t stripe : picks.slash_stripes) {
      // Offsets [128 stripe, 128 stripe + 127] meet these rows in keys [first - 128 stripe - 127, last - 128 stripe].
      const int64_t begin = first_position - (stripe + 1) * kBlock + 1;
      const int64_t last = last_position - stripe * kBlock;
      if (last < 0) continue;
      builder->AddRange(std::max<int64_t>(begin, 0) / kBlock * kBlock, (last / kBlock + 1) * kBlock);
    }
  }

  const AttentionProblem& problem_;
  const ParameterValues& values_;
  const RunOptions& options_;
  internal::LineProbe probe_;
  internal::LineSums sums_;
  std::vector<ChunkPicks> chunks_;
};

class SampleAttentionMethod final : public internal::PrefillSelector {
 public:
  SampleAttentionMethod() : PrefillSelector(MakeSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const PackedKeys keys = internal::PackVisibleKeys(problem, group.sequence, group.kv_head);
          HeadSelector selector(problem, values, options);
          for (int32_t i = 0; i < group.num_heads && !internal::IsCancelled(options); ++i) {
            selector.AddLists(keys, group.sequence, group.first_head + i, builder);
          }
        },
        index);
  }
};

}  // namespace

const PrefillMethod& SampleAttention() {
  static const SampleAttentionMethod method;
  return method;
}

}  // namespace headscope::kernels
