// SPDX-License-Identifier: Apache-2.0
// XAttention: blocks chosen by the sums of their antidiagonals.
//
// Source: XAttention: Block Sparse Attention with Antidiagonal Scoring, section 2 and Algorithm 1. Queries and keys in
// groups of `stride`; the score of a pair of groups is the mean of its antidiagonal, q[last - s] . k[first + s]; a
// causal softmax over groups, summed in blocks of 128 x 128, and per row block the fewest blocks that hold the share
// tau of the sum.
//
// Choices where the paper is silent: a group of fewer rows is filled up with zeros; causality among groups is that of
// the group's last row. The released code keeps the first and the own block, which count towards tau (`force_ends`);
// the paper does not. (Its thresholds come from a per-head search, which headscope's tuner does.)
#include <algorithm>
#include <bit>
#include <numbers>
#include <vector>

#include "head_groups.h"
#include "internal/bfloat16_scores.h"
#include "internal/element.h"
#include "internal/method_choices.h"
#include "internal/row_math.h"
#include "key_blocks.h"
#include "mass_share.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kXBlock = 128;
// Groups of queries for which keys are read at once. As many as the keys of a panel: then whole panels are all but the
// last one.
constexpr int32_t kGroupsAtOnce = 64;

MethodSpec XAttentionSpec() {
  return {
      .name = "x-attention",
      .title = "XAttention",
      .family = "dynamic pattern",
      .paper = "XAttention: Block Sparse Attention with Antidiagonal Scoring, section 2 and Algorithm 1",
      .summary =
          "Keeps, per block of 128 queries, the fewest blocks of 128 keys that hold the share tau of the "
          "antidiagonal scores.",
      .always_keeps = "nothing; with force_ends the first and the own block",
      .selection_cost = "2 (S / stride)^2 stride d FLOPs, a stride-th of the scores of dense attention, a head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters =
          {
              {.name = "tau",
               .type = ParameterType::kReal,
               .default_value = 0.9,
               .step = 0.01,
               .unit = Unit::kShareOfMass,
               .help = "share of the estimated mass that every block of query rows keeps",
               .cost = "more blocks, and many more near 1",
               .role = ParameterRole::kMassShare},
              {.name = "stride",
               .type = ParameterType::kChoice,
               .default_value = 1,
               .maximum = 4,
               .help = "rows and keys of a group, whose antidiagonal is scored (the paper: 8 and 16)",
               .cost = "selection takes proportionally less time; the estimate is coarser",
               .choices = {"4", "8", "16", "32", "64"}},
              {.name = "force_ends",
               .type = ParameterType::kFlag,
               .help = "always keep the first and the diagonal block, counted towards tau (the released code: 1)",
               .cost = "two blocks that may hold little"},
          },
  };
}

// Rows of a head of queries or keys, head_dim elements each.
struct RowsInPlace {
  const void* data;
  DType dtype;
  int64_t offset;  // of row 0, in elements
  int64_t row_stride;
  int32_t head_dim;
};

// Rows [begin, end) one behind the other, which is groups of `stride` rows each; zeros up to the last group's
// end.
void CopyRows(const RowsInPlace& rows, int32_t begin, int32_t end, int32_t stride, std::vector<float>* groups) {
  const int32_t num_groups = (end - begin + stride - 1) / stride;
  groups->resize(static_cast<size_t>(int64_t{num_groups} * stride * rows.head_dim));
  for (int32_t row = begin; row < end; ++row) {
    internal::LoadRow(rows.data, rows.dtype, rows.offset + row * rows.row_stride, rows.head_dim,
                      groups->data() + int64_t{row - begin} * rows.head_dim);
  }
  std::fill(groups->begin() + int64_t{end - begin} * rows.head_dim, groups->end(), 0.0f);
}

// Whether all of rows [begin, end) are bfloat16's values, as they are where a trace recorded in it is read as fp32.
bool HoldBFloat16(const RowsInPlace& rows, int32_t begin, int32_t end) {
  if (rows.dtype != DType::kFloat32) return rows.dtype == DType::kBFloat16;
  for (int32_t row = begin; row < end; ++row) {
    const float* const values = static_cast<const float*>(rows.data) + rows.offset + row * rows.row_stride;
    uint32_t lost = 0;  // bits that bfloat16 has not
    for (int32_t d = 0; d < rows.head_dim; ++d) lost |= std::bit_cast<uint32_t>(values[d]) & 0xffffu;
    if (lost != 0) return false;
  }
  return true;
}

// CopyRows of such rows. `reversed`: a group's last row comes first.
void CopyBFloat16(const RowsInPlace& rows, int32_t begin, int32_t end, int32_t stride, bool reversed,
                  std::vector<uint16_t>* groups) {
  const int32_t num_groups = (end - begin + stride - 1) / stride;
  groups->assign(static_cast<size_t>(int64_t{num_groups} * stride * rows.head_dim), 0);
  for (int32_t row = begin; row < end; ++row) {
    const int64_t first = rows.offset + row * rows.row_stride;
    const int32_t place = row - begin, in_group = place % stride;
    uint16_t* const to =
        groups->data() + int64_t{reversed ? place - in_group + stride - 1 - in_group : place} * rows.head_dim;
    if (rows.dtype == DType::kBFloat16) {
      std::copy_n(static_cast<const uint16_t*>(rows.data) + first, rows.head_dim, to);
      continue;
    }
    const float* const values = static_cast<const float*>(rows.data) + first;
    for (int32_t d = 0; d < rows.head_dim; ++d) to[d] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[d]) >> 16);
  }
}

class HeadSelector {
 public:
  HeadSelector(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
               int32_t sequence, int32_t kv_head)
      : problem_(problem),
        values_(values),
        options_(options),
        sequence_(sequence),
        stride_(1 << internal::AntidiagonalStrideLog2(values)),
        width_(stride_ * problem.head_dim),
        key_rows_(RowsInPlace{problem.k.data, problem.dtype,
                              sequence * problem.k.batch_stride + kv_head * problem.k.head_stride, problem.k.row_stride,
                              problem.head_dim}) {
    const int32_t num_keys = internal::NumVisibleKeys(problem);
    by_pairs_ = problem.soft_cap == 0 && internal::HasBFloat16Products() && HoldBFloat16(key_rows_, 0, num_keys);
    if (!by_pairs_) return;
    CopyBFloat16(key_rows_, 0, num_keys, stride_, /*reversed=*/true, &query_pairs_);
    key_pairs_ = internal::BFloat16Keys(query_pairs_.data(), (num_keys + stride_ - 1) / stride_, width_);
  }

  void AddLists(int32_t head, SparseIndexBuilder* builder) {
    query_rows_ = RowsInPlace{problem_.q.data, problem_.dtype,
                              sequence_ * problem_.q.batch_stride + head * problem_.q.head_stride,
                              problem_.q.row_stride, problem_.head_dim};
    scored_begin_ = scored_end_ = 0;
    const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
      const std::vector<float> mass = Mass(rows);
      *blocks = values_.Flag("force_ends") ? ShareWithEnds(rows, mass) : internal::TopShare(mass, values_.Real("tau"));
    };
    internal::AddBlockLists(problem_, options_, kXBlock, kXBlock, choose, builder);
  }

 private:
  // Rows [row_begin, row_end) of the head, whole blocks of queries, in groups against the groups of keys: scores
  // in base 2, of which a group's row holds as many as its block sees.
  void Score(int32_t row_begin, int32_t row_end) {
    constexpr int32_t kPanel = 64;
    constexpr float to_base_2 = std::numbers::log2e_v<float>;
    const float scale = problem_.EffectiveScale() / static_cast<float>(stride_) * to_base_2;
    const auto seen_groups = [&](int32_t end) { return (problem_.first_position + end - 1) / stride_ + 1; };
    const auto groups = [&](int32_t rows) { return (rows + stride_ - 1) / stride_; };
    const int32_t num_groups = seen_groups(row_end);
    scored_begin_ = row_begin;
    scored_end_ = row_end;
    length_ = (num_groups + kPanel - 1) / kPanel * kPanel;
    scores_.resize(static_cast<size_t>(groups(row_end - row_begin) * length_));
    if (by_pairs_ && HoldBFloat16(query_rows_, row_begin, row_end)) {
      CopyBFloat16(query_rows_, row_begin, row_end, stride_, /*reversed=*/false, &query_pairs_);
      internal::ScoreBFloat16(query_pairs_.data(), groups(row_end - row_begin), key_pairs_, num_groups, scale,
                              scores_.data(), length_);
      return;
    }
    const float* const queries = Queries(row_begin, row_end);
    const auto score = [&](int32_t begin, int32_t end, int32_t first_key, int32_t end_key) {
      const int64_t first = groups(begin - row_begin);
      ScoreBlock(queries + first * width_, width_, groups(end - begin), Keys(), first_key, end_key, scale,
                 problem_.soft_cap * to_base_2, scores_.data() + first * length_ + first_key, length_);
    };
    // Whole panels that all blocks see, and what each block sees beyond them.
    const int32_t common = seen_groups(std::min(row_begin + kXBlock, row_end)) / kPanel * kPanel;
    score(row_begin, row_end, 0, common);
    for (int32_t begin = row_begin; begin < row_end; begin += kXBlock) {
      const int32_t end = std::min(begin + kXBlock, row_end);
      score(begin, end, common, seen_groups(end));
    }
  }

  // Groups of queries in fp32: where they lie, if they lie as groups do, or a copy.
  const float* Queries(int32_t row_begin, int32_t row_end) {
    const bool as_groups = problem_.dtype == DType::kFloat32 && query_rows_.row_stride == problem_.head_dim &&
                           (row_end - row_begin) % stride_ == 0;
    if (as_groups)
      return static_cast<const float*>(query_rows_.data) + query_rows_.offset + row_begin * query_rows_.row_stride;
    CopyRows(query_rows_, row_begin, row_end, stride_, &queries_);
    return queries_.data();
  }

  // In fp32, made when a block of queries asks for them first.
  const PackedKeys& Keys() {
    if (keys_.data() != nullptr) return keys_;
    const int64_t first_byte = key_rows_.offset * SizeOf(problem_.dtype);
    keys_ = PackedKeys::OfGroups(static_cast<const char*>(key_rows_.data) + first_byte, problem_.dtype,
                                 key_rows_.row_stride, internal::NumVisibleKeys(problem_), problem_.head_dim, stride_);
    return keys_;
  }

  // Of the groups of a block of rows, by key block.
  std::vector<float> Mass(const internal::QueryBlock& rows) {
    // A block begins with a group: strides divide its rows.
    const int32_t first = rows.row_begin / stride_, end = (rows.row_end + stride_ - 1) / stride_;
    if (rows.row_begin < scored_begin_ || rows.row_end > scored_end_) {
      const int32_t at_once = std::max(kGroupsAtOnce * stride_ / kXBlock, 1) * kXBlock;
      Score(rows.row_begin, std::min(rows.row_begin + at_once, problem_.seq_q));
    }
    const auto num_groups = static_cast<int32_t>(rows.last_position / stride_) + 1;
    std::vector<float> mass(static_cast<size_t>(num_groups), 0.0f);
    for (int32_t group = first; group < end; ++group) {
      const int64_t last = int64_t{problem_.first_position} + std::min((group + 1) * stride_, problem_.seq_q) - 1;
      const int64_t seen = last / stride_ + 1;
      float* const row = scores_.data() + (group - scored_begin_ / stride_) * length_;
      const float sum = internal::WeightsOfBase2(row, seen);
      internal::AddScaled(row, seen, 1.0f / sum, mass.data());
    }
    return internal::StripeSums(mass, kXBlock / stride_);
  }

  std::vector<int32_t> ShareWithEnds(const internal::QueryBlock& rows, std::vector<float> mass) const {
    std::vector<int32_t> kept = {0};
    internal::AppendOwnBlocks(rows, kXBlock, &kept);
    double total = 0, forced = 0;
    for (const float one : mass) total += static_cast<double>(one);
    for (const int32_t block : kept) {
      forced += static_cast<double>(mass[static_cast<size_t>(block)]);
      mass[static_cast<size_t>(block)] = 0;  // the first block may be the own one
    }
    const double tau = values_.Real("tau");
    const internal::RankedMass others = internal::RankMass(std::move(mass));
    for (size_t rank = 0; rank < others.ranking.size(); ++rank) {
      if (tau < 1 && forced + others.before[rank] >= tau * total) break;
      kept.push_back(others.ranking[rank]);
    }
    return kept;
  }

  const AttentionProblem& problem_;
  const ParameterValues& values_;
  const RunOptions& options_;
  const int32_t sequence_, stride_, width_;
  const RowsInPlace key_rows_;
  RowsInPlace query_rows_ = {};
  bool by_pairs_ = false;  // products of two bfloat16 components at a time
  PackedKeys keys_;        // groups in reverse, so that queries are read as they lie
  internal::BFloat16Keys key_pairs_;
  std::vector<float> queries_, scores_;
  int32_t scored_begin_ = 0, scored_end_ = 0;  // the rows whose scores are there
  int64_t length_ = 0;                         // of a row of scores
  std::vector<uint16_t> query_pairs_;
};

class XAttentionMethod final : public internal::PrefillSelector {
 public:
  XAttentionMethod() : PrefillSelector(XAttentionSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    return internal::SelectHeadByHead<HeadSelector>(problem, values, options, index);
  }
};

}  // namespace

const PrefillMethod& XAttention() {
  static const XAttentionMethod method;
  return method;
}

}  // namespace headscope::kernels
