// SPDX-License-Identifier: Apache-2.0
// FlexPrefill: a pattern and a budget for every head, both found on the prompt at hand.
//
// Source: FlexPrefill: A Context-Aware Sparse Attention Mechanism for Efficient Long-Sequence Inference, Algorithms 1
// to 4. The last block of 128 queries is representative: where the block means predict its attention over key blocks
// (square root of the Jensen-Shannon divergence below tau), blocks are chosen by the means of all query blocks
// (query-aware); otherwise columns and diagonals by the representative queries (vertical-slash): of either direction
// the fewest whose mass is the share gamma, as that is of the whole map of a query-aware head. What a block kernel
// keeps of lines: line_lists.h. Where the paper leaves it open, as in the released code: the divergence takes natural
// logarithms, and a direction has min_budget (1024) lines at least.
//
// The released code (`form=code`) keeps stripes: gamma counts single lines, of which n make n / 128 + 1 stripes of 128,
// and the best stripes are taken; stripe s of diagonals is the block diagonal s. The first stripe of columns and that
// of the main diagonal rank first and are always among them, and query-aware heads keep min_budget of stripes as well.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "head_groups.h"
#include "internal/method_choices.h"
#include "key_blocks.h"
#include "line_lists.h"
#include "line_sums.h"
#include "mass_share.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kFlexBlock = 128;
using Form = internal::FlexForm;

MethodSpec FlexPrefillSpec() {
  return {
      .name = "flex-prefill",
      .title = "FlexPrefill",
      .family = "dynamic pattern",
      .paper =
          "FlexPrefill: A Context-Aware Sparse Attention Mechanism for Efficient Long-Sequence Inference, Algorithms 1 "
          "to 4",
      .summary = "Finds per head whether block means or lines predict the attention, and keeps the share gamma of it.",
      .always_keeps =
          "min_budget columns and as many slashes of a head that selects by lines, nothing of others; in the form of "
          "the code stripes of as many tokens of every head, the first columns and the diagonal among them",
      .selection_cost =
          "exact scores of the last 128 rows, 256 S d FLOPs; where block means choose, 2 (S / 128)^2 d more; a head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters =
          {
              {.name = "gamma",
               .type = ParameterType::kReal,
               .default_value = 0.95,
               .step = 0.01,
               .unit = Unit::kShareOfMass,
               .help = "share of the estimated mass that is kept (the paper: 0.9 and 0.95)",
               .cost = "more blocks, and many more near 1",
               .role = ParameterRole::kMassShare},
              {.name = "tau",
               .type = ParameterType::kReal,
               .default_value = 0.1,
               .step = 0.05,
               .help = "largest divergence at which block means select (0: always lines)",
               .cost = "more heads select by block means"},
              {.name = "min_budget",
               .default_value = 1024,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 128,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "least number of columns, and of slashes, kept by a head that selects by lines",
               .cost = "more pairs where gamma asks for few",
               .scaled_floor = 128},
              {.name = "form",
               .type = ParameterType::kChoice,
               .help = "single lines, or the released code's stripes of 128, the first and the diagonal among them",
               .cost = "of the released code's: whole stripes, for query-aware heads too; it selects on GPUs",
               .choices = {"paper", "code"}},
          },
  };
}

// Natural logarithms; both sum to 1.
double JensenShannon(const std::vector<float>& a, const std::vector<float>& b) {
  double divergence = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    const double mean = (x + y) / 2;
    if (x > 0) divergence += x * std::log(x / mean) / 2;
    if (y > 0) divergence += y * std::log(y / mean) / 2;
  }
  return std::max(divergence, 0.0);
}

class FlexPrefillHead {
 public:
  FlexPrefillHead(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                  int32_t sequence, int32_t kv_head)
      : problem_(problem),
        values_(values),
        options_(options),
        form_(values.Choice<Form>("form")),
        sequence_(sequence),
        keys_(internal::PackVisibleKeys(problem, sequence, kv_head)),
        pooled_(internal::PoolVisibleKeys(problem, sequence, kv_head, kFlexBlock)),
        probe_(problem, options) {}

  void AddLists(int32_t head, SparseIndexBuilder* builder) {
    probe_.Sum(keys_, sequence_, head, std::max(0, problem_.seq_q - kFlexBlock), problem_.seq_q, &sums_);
    if (options_.stop.stop_requested()) return;
    const std::vector<float> columns = internal::StripeSums(sums_.columns, kFlexBlock);
    if (std::sqrt(JensenShannon(PredictedShares(head), Normalised(columns))) < values_.Real("tau")) {
      AddByMeans(head, columns, builder);
    } else if (form_ == Form::kPaper) {
      internal::AddLineLists(problem_, options_, BestLines(sums_.columns), BestLines(sums_.slashes), builder);
    } else {
      AddByStripes(columns, builder);
    }
  }

 private:
  // Lines of a direction that hold the share gamma.
  int64_t NumLines(const std::vector<float>& lines) const {
    return static_cast<int64_t>(internal::RankMass(lines).Count(values_.Real("gamma")));
  }

  std::vector<int32_t> BestLines(const std::vector<float>& lines) const {
    return internal::TopK(lines, std::max<int64_t>(NumLines(lines), values_.Integer("min_budget")));
  }

  // Stripes of either direction that are kept in any case.
  int64_t LeastStripes() const { return std::max((values_.Integer("min_budget") + kFlexBlock - 1) / kFlexBlock, 1); }

  // Stripes that the share gamma of single lines asks for.
  int64_t NumStripes(const std::vector<float>& lines) const {
    return std::max(NumLines(lines) / kFlexBlock + 1, LeastStripes());
  }

  // The best stripes of a direction; stripe 0, the first columns or the main diagonal, before all.
  static std::vector<int32_t> BestStripes(std::vector<float> stripes, int64_t count) {
    stripes.front() = std::numeric_limits<float>::infinity();
    return internal::TopK(stripes, count);
  }

  static void AppendStripes(const internal::QueryBlock& rows, const std::vector<int32_t>& vertical,
                            const std::vector<int32_t>& slash, std::vector<int32_t>* blocks) {
    blocks->insert(blocks->end(), vertical.begin(), vertical.end());
    for (int32_t own = rows.FirstOwn(kFlexBlock); own < rows.NumKeyBlocks(kFlexBlock); ++own) {
      for (const int32_t diagonal : slash) {
        if (diagonal <= own) blocks->push_back(own - diagonal);
      }
    }
  }

  int64_t QueryOffset(int32_t head, int32_t row) const {
    return sequence_ * problem_.q.batch_stride + head * problem_.q.head_stride + row * problem_.q.row_stride;
  }

  static std::vector<float> Normalised(std::vector<float> mass) {
    double total = 0;
    for (const float one : mass) total += static_cast<double>(one);
    for (float& one : mass) one = static_cast<float>(static_cast<double>(one) / total);
    return mass;
  }

  // What the mean of the representative queries makes of the means of the key blocks.
  std::vector<float> PredictedShares(int32_t head) const {
    const int32_t rows = std::min(kFlexBlock, problem_.seq_q);
    const std::vector<float> query = internal::PoolRows(
        problem_.q, problem_.dtype, QueryOffset(head, problem_.seq_q - rows), rows, problem_.head_dim, kFlexBlock);
    std::vector<float> scores(static_cast<size_t>(pooled_.seq_k()));
    ScoreBlock(query.data(), problem_.head_dim, 1, pooled_, 0, pooled_.seq_k(), problem_.EffectiveScale(),
               problem_.soft_cap, scores.data(), pooled_.seq_k());
    internal::SoftmaxInPlace(scores.data(), pooled_.seq_k(), pooled_.seq_k());
    return scores;
  }

  // The map of all blocks, each row a softmax: the best of all of them, and the least number of stripes that the
  // released code adds.
  void AddByMeans(int32_t head, const std::vector<float>& columns, SparseIndexBuilder* builder) const {
    const int32_t num_rows = (problem_.seq_q + kFlexBlock - 1) / kFlexBlock;
    const std::vector<float> queries = internal::PoolRows(problem_.q, problem_.dtype, QueryOffset(head, 0),
                                                          problem_.seq_q, problem_.head_dim, kFlexBlock);
    std::vector<float> map;
    std::vector<size_t> row_begin;
    for (int32_t number = 0; number < num_rows; ++number) {
      const int32_t count = internal::BlockOfRows(problem_, number, kFlexBlock).NumKeyBlocks(kFlexBlock);
      row_begin.push_back(map.size());
      map.resize(map.size() + static_cast<size_t>(count));
      float* const row = map.data() + row_begin.back();
      ScoreBlock(queries.data() + int64_t{number} * problem_.head_dim, problem_.head_dim, 1, pooled_, 0, count,
                 problem_.EffectiveScale(), problem_.soft_cap, row, count);
      internal::SoftmaxInPlace(row, count, count);
    }
    row_begin.push_back(map.size());
    const std::vector<int32_t> kept = internal::TopShare(map, values_.Real("gamma"));
    std::vector<int32_t> vertical, slash;
    if (form_ == Form::kCode) {
      vertical = BestStripes(columns, LeastStripes());
      slash = BestStripes(internal::StripeSums(sums_.slashes, kFlexBlock), LeastStripes());
    }
    size_t next = 0;
    const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
      const size_t begin = row_begin[static_cast<size_t>(rows.number)],
                   end = row_begin[static_cast<size_t>(rows.number) + 1];
      for (; next < kept.size() && static_cast<size_t>(kept[next]) < end; ++next)
        blocks->push_back(kept[next] - static_cast<int32_t>(begin));
      AppendStripes(rows, vertical, slash, blocks);
    };
    internal::AddBlockLists(problem_, options_, kFlexBlock, kFlexBlock, choose, builder);
  }

  void AddByStripes(const std::vector<float>& columns, SparseIndexBuilder* builder) const {
    const std::vector<int32_t> vertical = BestStripes(columns, NumStripes(sums_.columns));
    const std::vector<int32_t> slash =
        BestStripes(internal::StripeSums(sums_.slashes, kFlexBlock), NumStripes(sums_.slashes));
    const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
      AppendStripes(rows, vertical, slash, blocks);
    };
    internal::AddBlockLists(problem_, options_, kFlexBlock, kFlexBlock, choose, builder);
  }

  const AttentionProblem& problem_;
  const ParameterValues& values_;
  const RunOptions& options_;
  const Form form_;
  const int32_t sequence_;
  const PackedKeys keys_, pooled_;
  internal::LineProbe probe_;
  internal::LineSums sums_;
};

class FlexPrefillMethod final : public internal::PrefillSelector {
 public:
  FlexPrefillMethod() : PrefillSelector(FlexPrefillSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    return internal::SelectHeadByHead<FlexPrefillHead>(problem, values, options, index);
  }
};

}  // namespace

const PrefillMethod& FlexPrefill() {
  static const FlexPrefillMethod method;
  return method;
}

}  // namespace headscope::kernels
