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
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <type_traits>
#include <vector>

#include "head_groups.h"
#include "internal/bfloat16_scores.h"
#include "internal/element.h"
#include "internal/method_choices.h"
#include "internal/row_math.h"
#include "kernels/cpu_scores.h"
#include "key_blocks.h"
#include "mass_share.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kXBlock = 128;
// Groups of queries for which keys are read at once: one panel of the score kernel, whose lanes they are.
constexpr int32_t kGroupsAtOnce = internal::kColumns;
// Groups of keys that are scored at once, whole blocks of them: their scores stay in the first cache. Of strides up to
// 32 they are tiles of the score kernel without a rest.
constexpr int32_t kKeysAtOnce = 96;

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

// The last of so many rows' groups may lack some.
int32_t NumGroups(int32_t num_rows, int32_t stride) {
  return (num_rows + stride - 1) / stride;
}

// Rows [begin, end) one behind the other, which is groups of `stride` rows each; zeros up to the last group's
// end.
void CopyRows(const RowsInPlace& rows, int32_t begin, int32_t end, int32_t stride, std::vector<float>* groups) {
  groups->resize(static_cast<size_t>(int64_t{NumGroups(end - begin, stride)} * stride * rows.head_dim));
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
  groups->assign(static_cast<size_t>(int64_t{NumGroups(end - begin, stride)} * stride * rows.head_dim), 0);
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

// The groups of a head's keys in fp32 or, of keys that hold nothing else, bfloat16, one behind the other: where they
// lie, if they lie so, or a copy. A last group that lacks rows is always a copy.
template <typename Number>
class KeyGroups {
 public:
  KeyGroups(const RowsInPlace& rows, int32_t num_rows, int32_t stride) : width_(int64_t{stride} * rows.head_dim) {
    constexpr bool kIsFloat = std::is_same_v<Number, float>;
    if (rows.dtype == (kIsFloat ? DType::kFloat32 : DType::kBFloat16) && rows.row_stride == rows.head_dim) {
      in_place_ = static_cast<const Number*>(rows.data) + rows.offset;
      num_in_place_ = num_rows / stride;
    }
    if constexpr (kIsFloat) {
      CopyRows(rows, num_in_place_ * stride, num_rows, stride, &copied_);
    } else {
      CopyBFloat16(rows, num_in_place_ * stride, num_rows, stride, /*reversed=*/false, &copied_);
    }
  }

  // Groups [begin, ..) and, in *end, up to where they lie behind each other: at most to the given end.
  const Number* From(int32_t begin, int32_t* end) const {
    if (begin >= num_in_place_) return copied_.data() + (begin - num_in_place_) * width_;
    *end = std::min(*end, num_in_place_);
    return in_place_ + begin * width_;
  }

 private:
  const int64_t width_;
  const Number* in_place_ = nullptr;
  int32_t num_in_place_ = 0;
  std::vector<Number> copied_;
};

class HeadSelector {
 public:
  HeadSelector(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
               int32_t sequence, int32_t kv_head)
      : problem_(problem),
        values_(values),
        options_(options),
        sequence_(sequence),
        stride_(1 << internal::AntidiagonalStrideLog2(values)),
        block_groups_(kXBlock / stride_),
        width_(stride_ * problem.head_dim),
        scale_(problem.EffectiveScale() / static_cast<float>(stride_) * std::numbers::log2e_v<float>),
        key_rows_(RowsInPlace{problem.k.data, problem.dtype,
                              sequence * problem.k.batch_stride + kv_head * problem.k.head_stride, problem.k.row_stride,
                              problem.head_dim}),
        scores_(int64_t{kKeysAtOnce} * kGroupsAtOnce) {
    const int32_t num_keys = internal::NumVisibleKeys(problem);
    by_pairs_ = problem.soft_cap == 0 && internal::HasBFloat16Products() && HoldBFloat16(key_rows_, 0, num_keys);
    if (by_pairs_) key_pairs_.emplace(key_rows_, num_keys, stride_);
  }

  void AddLists(int32_t head, SparseIndexBuilder* builder) {
    query_rows_ = RowsInPlace{problem_.q.data, problem_.dtype,
                              sequence_ * problem_.q.batch_stride + head * problem_.q.head_stride,
                              problem_.q.row_stride, problem_.head_dim};
    weighed_begin_ = weighed_end_ = 0;
    const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
      const std::vector<float> mass = Mass(rows);
      *blocks = values_.Flag("force_ends") ? ShareWithEnds(rows, mass) : internal::TopShare(mass, values_.Real("tau"));
    };
    internal::AddBlockLists(problem_, options_, kXBlock, kXBlock, choose, builder);
  }

 private:
  // The last group of keys that the group of rows [row_begin, ..) sees.
  int32_t LastSeen(int32_t row_begin) const {
    return (problem_.first_position + std::min(row_begin + stride_, problem_.seq_q) - 1) / stride_;
  }

  // The groups of rows [row_begin, row_end), which are columns from here on: what every block of keys has of a column's
  // softmax, block by block of keys while these are in the cache.
  void Weigh(int32_t row_begin, int32_t row_end) {
    weighed_begin_ = row_begin;
    weighed_end_ = row_end;
    const int32_t num_columns = NumGroups(row_end - row_begin, stride_);
    const int32_t num_groups = LastSeen(row_begin + (num_columns - 1) * stride_) + 1;
    const int32_t num_blocks = (num_groups + block_groups_ - 1) / block_groups_;
    largest_.resize(static_cast<size_t>(num_blocks) * internal::kColumns);
    shares_.resize(largest_.size());
    const Columns columns = PackColumns(row_begin, row_end);
    const int32_t seen_by_all = LastSeen(row_begin) + 1;
    for (int32_t begin = 0, end = 0; begin < num_groups; begin = end) {
      // Blocks that not every column sees whole are taken one by one.
      end = begin + block_groups_;
      while (end - begin + block_groups_ <= kKeysAtOnce && end + block_groups_ <= seen_by_all) end += block_groups_;
      end = std::min(end, num_groups);
      FetchRowsBehind(row_end, begin, end, num_groups);
      Score(columns, row_begin, num_columns, begin, end);
      for (int32_t block = begin; block < end; block += block_groups_) {
        const int64_t place = int64_t{block / block_groups_} * internal::kColumns;
        internal::ColumnWeights(scores_.data() + int64_t{block - begin} * internal::kColumns,
                                std::min(block + block_groups_, end) - block, largest_.data() + place,
                                shares_.data() + place);
      }
    }
    internal::ColumnShares(largest_.data(), num_blocks, shares_.data());
  }

  // The rows that are packed next come into the cache while the product runs: those of [begin, end) of num_groups
  // shares.
  void FetchRowsBehind(int32_t row_end, int32_t begin, int32_t end, int32_t num_groups) const {
    constexpr int64_t kCacheLine = 64;
    const int64_t num_rows = std::min(kGroupsAtOnce * stride_, problem_.seq_q - row_end);
    const int64_t element = SizeOf(problem_.dtype), row_bytes = problem_.head_dim * element;
    for (int64_t row = row_end + num_rows * begin / num_groups; row < row_end + num_rows * end / num_groups; ++row) {
      const char* const bytes =
          static_cast<const char*>(query_rows_.data) + (query_rows_.offset + row * query_rows_.row_stride) * element;
      for (int64_t at = 0; at < row_bytes; at += kCacheLine) __builtin_prefetch(bytes + at, 0, 2);
    }
  }

  // Groups of queries as a panel of columns, their rows in reverse: in pairs of bfloat16 where these are exact.
  struct Columns {
    PackedKeys floats;
    internal::BFloat16Keys pairs;
  };
  Columns PackColumns(int32_t row_begin, int32_t row_end) {
    Columns columns;
    if (by_pairs_ && HoldBFloat16(query_rows_, row_begin, row_end)) {
      CopyBFloat16(query_rows_, row_begin, row_end, stride_, /*reversed=*/true, &query_pairs_);
      columns.pairs = internal::BFloat16Keys(query_pairs_.data(), NumGroups(row_end - row_begin, stride_), width_);
      return columns;
    }
    const int64_t first = query_rows_.offset + row_begin * query_rows_.row_stride;
    columns.floats =
        PackedKeys::OfGroups(static_cast<const char*>(query_rows_.data) + first * SizeOf(problem_.dtype),
                             problem_.dtype, query_rows_.row_stride, row_end - row_begin, problem_.head_dim, stride_);
    if (!keys_) keys_.emplace(key_rows_, internal::NumVisibleKeys(problem_), stride_);
    return columns;
  }

  // Groups of keys [begin, end) for every column, in base 2; -infinity where a column does not see them.
  void Score(const Columns& columns, int32_t row_begin, int32_t num_columns, int32_t begin, int32_t end) {
    int32_t first = 0;  // column that sees any of them
    while (LastSeen(row_begin + first * stride_) < begin) ++first;
    if (columns.pairs.num_rows() > 0) {
      for (int32_t part = begin, part_end = end; part < end; part = part_end, part_end = end) {
        const uint16_t* const keys = key_pairs_->From(part, &part_end);
        internal::ScoreBFloat16(keys, part_end - part, columns.pairs, num_columns, scale_,
                                scores_.data() + int64_t{part - begin} * internal::kColumns, internal::kColumns);
      }
    } else {
      constexpr int32_t kStep = 16;  // of columns, whole vectors of any machine
      const int32_t from = first / kStep * kStep;
      constexpr float to_base_2 = std::numbers::log2e_v<float>;
      for (int32_t part = begin, part_end = end; part < end; part = part_end, part_end = end) {
        const float* const keys = keys_->From(part, &part_end);
        ScoreBlock(keys, width_, part_end - part, columns.floats, from, num_columns, scale_,
                   problem_.soft_cap * to_base_2, scores_.data() + int64_t{part - begin} * internal::kColumns + from,
                   internal::kColumns);
      }
    }
    for (int32_t key = begin; key < end; ++key) {
      while (first < num_columns && LastSeen(row_begin + first * stride_) < key) ++first;
      std::fill_n(scores_.begin() + int64_t{key - begin} * internal::kColumns, first,
                  -std::numeric_limits<float>::infinity());
    }
  }

  // Of the groups of a block of rows, by key block.
  std::vector<float> Mass(const internal::QueryBlock& rows) {
    if (rows.row_begin < weighed_begin_ || rows.row_end > weighed_end_)
      Weigh(rows.row_begin, std::min(rows.row_begin + kGroupsAtOnce * stride_, problem_.seq_q));
    // A block begins with a group: strides divide its rows.
    const int32_t first = (rows.row_begin - weighed_begin_) / stride_;
    const int32_t end = NumGroups(rows.row_end - weighed_begin_, stride_);
    std::vector<float> mass(static_cast<size_t>(rows.last_position / kXBlock + 1));
    for (size_t block = 0; block < mass.size(); ++block) {
      const float* const shares = shares_.data() + static_cast<int64_t>(block) * internal::kColumns;
      mass[block] = std::accumulate(shares + first, shares + end, 0.0f);
    }
    return mass;
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
  const int32_t sequence_, stride_, block_groups_, width_;
  const float scale_;
  const RowsInPlace key_rows_;
  RowsInPlace query_rows_ = {};
  std::optional<KeyGroups<float>> keys_;  // made when a block of queries asks for them first
  bool by_pairs_ = false;  // keys are bfloat16's numbers, of which a product takes two components at a time
  std::optional<KeyGroups<uint16_t>> key_pairs_;  // their groups
  std::vector<uint16_t> query_pairs_;
  std::vector<float> scores_;                    // [keys at once, kColumns]
  std::vector<float> largest_, shares_;          // [key blocks, kColumns]
  int32_t weighed_begin_ = 0, weighed_end_ = 0;  // the rows whose shares are there
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
