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
//
// Where a CPU multiplies whole numbers of 16 bits twice as fast as fp32, rounded scores choose first
// (integer_scores.h), and only where no rounding could have changed the choice (sure_share.h); elsewhere fp32 scores
// choose. Of blocks that tie to within what fp32's own sums are wrong by, either way may keep another.
#include <algorithm>
#include <limits>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <vector>

#include "head_groups.h"
#include "internal/bfloat16_scores.h"
#include "internal/integer_scores.h"
#include "internal/method_choices.h"
#include "internal/row_math.h"
#include "kernels/cpu_scores.h"
#include "key_blocks.h"
#include "keys_at_work.h"
#include "mass_share.h"
#include "registry.h"
#include "rounded_groups.h"
#include "row_groups.h"
#include "selector.h"
#include "sure_share.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kXBlock = 128;
// Groups of queries for which keys are read at once: one panel of the score kernel, whose lanes they are.
constexpr int32_t kGroupsAtOnce = internal::kColumns;
// Groups of keys that are scored at once, whole blocks of them: their scores stay in the first cache. Of strides up to
// 32 they are tiles of the score kernel without a rest.
constexpr int32_t kKeysAtOnce = 96;
constexpr float kToBase2 = std::numbers::log2e_v<float>;

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

// What is made of keys for all query heads that share them: their groups in fp32, as bfloat16 and rounded.
struct XAttentionKeys {
  explicit XAttentionKeys(int64_t num_kv_heads) : floats(num_kv_heads), pairs(num_kv_heads), rounded(num_kv_heads) {}
  internal::KeysAtWork<internal::GroupsInPlace<float>> floats;
  internal::KeysAtWork<internal::GroupsInPlace<uint16_t>> pairs;
  internal::KeysAtWork<internal::RoundedKeys> rounded;
};

class HeadSelector {
 public:
  HeadSelector(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
               int32_t sequence, int32_t kv_head, XAttentionKeys* shared)
      : problem_(problem),
        values_(values),
        options_(options),
        sequence_(sequence),
        stride_(1 << internal::AntidiagonalStrideLog2(values)),
        block_groups_(kXBlock / stride_),
        scale_(problem.EffectiveScale() / static_cast<float>(stride_) * kToBase2),
        key_rows_{.data = problem.k.data,
                  .dtype = problem.dtype,
                  .offset = sequence * problem.k.batch_stride + kv_head * problem.k.head_stride,
                  .row_stride = problem.k.row_stride,
                  .head_dim = problem.head_dim,
                  .num_rows = internal::NumVisibleKeys(problem),
                  .stride = stride_},
        kv_head_(int64_t{sequence} * problem.num_kv_heads + kv_head),
        shared_(shared),
        scores_(int64_t{kKeysAtOnce} * kGroupsAtOnce) {
    if (problem.soft_cap != 0) return;
    if (internal::BFloat16ProductsPay() && internal::HoldBFloat16(key_rows_, 0, key_rows_.num_rows)) {
      key_pairs_ = shared_->pairs.Of(kv_head_, key_rows_);
    } else if (internal::IntegerProductsPay()) {
      rounded_.emplace(shared_->rounded.Of(kv_head_, key_rows_, block_groups_),
                       problem.EffectiveScale() / static_cast<float>(stride_), kToBase2);
    }
  }

  void AddLists(int32_t head, SparseIndexBuilder* builder) {
    query_rows_ = {.data = problem_.q.data,
                   .dtype = problem_.dtype,
                   .offset = sequence_ * problem_.q.batch_stride + head * problem_.q.head_stride,
                   .row_stride = problem_.q.row_stride,
                   .head_dim = problem_.head_dim,
                   .num_rows = problem_.seq_q,
                   .stride = stride_,
                   .first_position = problem_.first_position};
    chosen_.assign(static_cast<size_t>((problem_.seq_q + kXBlock - 1) / kXBlock), {});
    std::vector<int32_t> unsure;
    for (int32_t row = 0; row < problem_.seq_q && !options_.stop.stop_requested(); row += kGroupsAtOnce * stride_) {
      const std::vector<int32_t> blocks = BlocksOfRows(row, std::min(row + kGroupsAtOnce * stride_, problem_.seq_q));
      // Of a head that is mostly not sure what is left goes to the exact scores at once.
      constexpr size_t kEnoughToJudge = 16;
      const auto seen = static_cast<size_t>(blocks.front());
      if (seen >= kEnoughToJudge && 2 * unsure.size() > seen) {
        unsure.insert(unsure.end(), blocks.begin(), blocks.end());
        continue;
      }
      ChooseOf(blocks, rounded_.has_value(), &unsure);
    }
    const auto at_once = static_cast<size_t>(kGroupsAtOnce / block_groups_);
    for (size_t begin = 0; begin < unsure.size() && !options_.stop.stop_requested(); begin += at_once) {
      const size_t end = std::min(begin + at_once, unsure.size());
      ChooseOf({unsure.begin() + static_cast<int64_t>(begin), unsure.begin() + static_cast<int64_t>(end)},
               /*by_integers=*/false, nullptr);
    }
    const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
      *blocks = chosen_[static_cast<size_t>(rows.number)];
    };
    internal::AddBlockLists(problem_, options_, kXBlock, kXBlock, choose, builder);
  }

 private:
  // Groups of queries as a panel of columns, their rows in reverse: rounded, in pairs of bfloat16 where these are
  // exact, or in fp32.
  struct Columns {
    std::vector<int32_t> rows;  // the first of each group
    int32_t rows_end = 0;       // of the last one
    bool by_integers = false;   // rounded_ has them
    internal::BFloat16Keys pairs;
    PackedKeys floats;
    int32_t count() const { return static_cast<int32_t>(rows.size()); }
  };

  // Numbers of the blocks that rows [begin, end) are, from a block's begin on.
  static std::vector<int32_t> BlocksOfRows(int32_t begin, int32_t end) {
    std::vector<int32_t> blocks(static_cast<size_t>((end - begin + kXBlock - 1) / kXBlock));
    std::iota(blocks.begin(), blocks.end(), begin / kXBlock);
    return blocks;
  }

  // What some blocks of rows keep, which are a panel together; appends those whose choice rounded scores leave open.
  void ChooseOf(const std::vector<int32_t>& blocks, bool by_integers, std::vector<int32_t>* unsure) {
    const Columns columns = PackColumns(blocks, by_integers);
    Weigh(columns);
    int32_t first = 0;
    for (const int32_t number : blocks) {
      // A block begins with a group: strides divide its rows.
      const internal::QueryBlock rows = internal::BlockOfRows(problem_, number, kXBlock);
      const int32_t end = first + (rows.row_end - rows.row_begin + stride_ - 1) / stride_;
      if (!by_integers) {
        chosen_[static_cast<size_t>(number)] = Keep(rows, first, end);
      } else if (!KeepSurely(rows, first, end)) {
        unsure->push_back(number);
      }
      first = end;
    }
  }

  // What a block of rows keeps by the shares of columns [first, end).
  std::vector<int32_t> Keep(const internal::QueryBlock& rows, int32_t first, int32_t end) const {
    const std::vector<float> mass = Mass(rows.NumKeyBlocks(kXBlock), first, end);
    return values_.Flag("force_ends") ? ShareWithEnds(rows, mass) : internal::TopShare(mass, values_.Real("tau"));
  }

  // The same by rounded scores, where exact ones keep the same: else false. Blocks whose order is open are scored
  // exactly, which mostly settles it.
  bool KeepSurely(const internal::QueryBlock& rows, int32_t first, int32_t end) {
    constexpr int32_t kMostRounds = 3;
    // Of more it takes less to score all, since these are scored one by one.
    const auto most_open = static_cast<size_t>(std::clamp(rows.NumKeyBlocks(kXBlock) / 8, 2, 12));
    const internal::RoundedShares rounded{shares_.data(), rounded_->errors(), rows.NumKeyBlocks(kXBlock), first, end};
    const int32_t num_forced = values_.Flag("force_ends") ? static_cast<int32_t>(Ends(rows).size()) : 0;
    std::vector<int32_t>& kept = chosen_[static_cast<size_t>(rows.number)];
    std::vector<int32_t> open, exact;
    for (int32_t round = 0; round < kMostRounds; ++round) {
      kept = Keep(rows, first, end);
      const internal::ShareChoice choice =
          internal::JudgeShare(rounded, kept, num_forced, values_.Real("tau"), most_open, &open);
      if (choice != internal::ShareChoice::kOpenOrder) return choice == internal::ShareChoice::kSure;
      std::erase_if(open, [&](int32_t block) { return std::ranges::find(exact, block) != exact.end(); });
      if (open.empty()) return false;
      for (const int32_t block : open)
        rounded_->ScoreExactly(block, first, end, shares_.data() + block * internal::kColumns);
      Normalize(rounded);
      exact.insert(exact.end(), open.begin(), open.end());
    }
    return false;
  }

  // Columns' shares sum to 1 again.
  void Normalize(const internal::RoundedShares& rounded) {
    for (int32_t column = rounded.begin; column < rounded.end; ++column) {
      float sum = 0;
      for (int32_t block = 0; block < rounded.num_blocks; ++block)
        sum += shares_[static_cast<size_t>(block * internal::kColumns + column)];
      for (int32_t block = 0; block < rounded.num_blocks; ++block)
        shares_[static_cast<size_t>(block * internal::kColumns + column)] /= sum;
    }
  }

  // What every block of keys has of a column's softmax, block by block of keys while these are in the cache.
  void Weigh(const Columns& columns) {
    const int32_t num_groups = query_rows_.LastSeen(columns.rows.back()) + 1;
    const int32_t num_blocks = (num_groups + block_groups_ - 1) / block_groups_;
    largest_.resize(static_cast<size_t>(num_blocks) * internal::kColumns);
    shares_.resize(largest_.size());
    const int32_t seen_by_all = query_rows_.LastSeen(columns.rows.front()) + 1;
    for (int32_t begin = 0, end = 0; begin < num_groups; begin = end) {
      // Blocks that not every column sees whole are taken one by one.
      end = begin + block_groups_;
      while (end - begin + block_groups_ <= kKeysAtOnce && end + block_groups_ <= seen_by_all) end += block_groups_;
      end = std::min(end, num_groups);
      FetchRowsBehind(columns.rows_end, begin, end, num_groups);
      Score(columns, begin, end);
      for (int32_t block = begin; block < end; block += block_groups_) {
        const int64_t place = int64_t{block / block_groups_} * internal::kColumns;
        internal::ColumnWeights(scores_.data() + int64_t{block - begin} * internal::kColumns,
                                std::min(block + block_groups_, end) - block, largest_.data() + place,
                                shares_.data() + place);
      }
    }
    internal::ColumnShares(largest_.data(), num_blocks, shares_.data());
    if (columns.by_integers) rounded_->BoundErrors(num_blocks);
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

  // Of blocks that follow each other, or of any for exact scores.
  Columns PackColumns(const std::vector<int32_t>& blocks, bool by_integers) {
    Columns columns;
    columns.by_integers = by_integers;
    for (const int32_t block : blocks) {
      columns.rows_end = std::min((block + 1) * kXBlock, problem_.seq_q);
      for (int32_t row = block * kXBlock; row < columns.rows_end; row += stride_) columns.rows.push_back(row);
    }
    const int32_t row_begin = columns.rows.front();
    const bool is_one_stretch = columns.rows_end - row_begin <= static_cast<int32_t>(blocks.size()) * kXBlock;
    if (by_integers) {
      rounded_->Round(query_rows_, columns.rows);
    } else if (key_pairs_ != nullptr && is_one_stretch &&
               internal::HoldBFloat16(query_rows_, row_begin, columns.rows_end)) {
      internal::CopyBFloat16(query_rows_, row_begin, columns.rows_end, /*reversed=*/true, &query_pairs_);
      columns.pairs = internal::BFloat16Keys(query_pairs_.data(), columns.count(), key_rows_.width());
    } else if (is_one_stretch) {
      const int64_t first = query_rows_.offset + row_begin * query_rows_.row_stride;
      columns.floats = PackedKeys::OfGroups(static_cast<const char*>(query_rows_.data) + first * SizeOf(problem_.dtype),
                                            problem_.dtype, query_rows_.row_stride, columns.rows_end - row_begin,
                                            problem_.head_dim, stride_);
    } else {
      const int32_t width = query_rows_.width();
      gathered_.resize(static_cast<size_t>(columns.count()) * static_cast<size_t>(width));
      for (size_t i = 0; i < columns.rows.size(); ++i)
        query_rows_.LoadGroup(columns.rows[i], /*reversed=*/false, gathered_.data() + static_cast<int64_t>(i) * width);
      columns.floats = PackedKeys::OfGroups(gathered_.data(), DType::kFloat32, problem_.head_dim,
                                            columns.count() * stride_, problem_.head_dim, stride_);
    }
    if (columns.floats.seq_k() > 0 && keys_ == nullptr) keys_ = shared_->floats.Of(kv_head_, key_rows_);
    return columns;
  }

  // Groups of keys [begin, end) for every column, in base 2; -infinity where a column does not see them.
  void Score(const Columns& columns, int32_t begin, int32_t end) {
    int32_t first = 0;  // column that sees any of them
    while (query_rows_.LastSeen(columns.rows[static_cast<size_t>(first)]) < begin) ++first;
    constexpr int32_t kStep = 16;  // of columns, whole vectors of any machine
    const int32_t from = first / kStep * kStep;
    if (columns.by_integers) {
      rounded_->Score(begin, end, from, scores_.data());
    } else if (columns.pairs.num_rows() > 0) {
      for (int32_t part = begin, part_end = end; part < end; part = part_end, part_end = end) {
        const uint16_t* const keys = key_pairs_->From(part, &part_end);
        internal::ScoreBFloat16(keys, part_end - part, columns.pairs, columns.count(), scale_,
                                scores_.data() + int64_t{part - begin} * internal::kColumns, internal::kColumns);
      }
    } else {
      for (int32_t part = begin, part_end = end; part < end; part = part_end, part_end = end) {
        const float* const keys = keys_->From(part, &part_end);
        ScoreBlock(keys, key_rows_.width(), part_end - part, columns.floats, from, columns.count(), scale_,
                   problem_.soft_cap * kToBase2, scores_.data() + int64_t{part - begin} * internal::kColumns + from,
                   internal::kColumns);
      }
    }
    for (int32_t key = begin; key < end; ++key) {
      while (first < columns.count() && query_rows_.LastSeen(columns.rows[static_cast<size_t>(first)]) < key) ++first;
      std::fill_n(scores_.begin() + int64_t{key - begin} * internal::kColumns, first,
                  -std::numeric_limits<float>::infinity());
    }
  }

  // Of a block of rows, columns [first, end), by key block.
  std::vector<float> Mass(int32_t num_blocks, int32_t first, int32_t end) const {
    std::vector<float> mass(static_cast<size_t>(num_blocks));
    for (size_t block = 0; block < mass.size(); ++block) {
      const float* const shares = shares_.data() + static_cast<int64_t>(block) * internal::kColumns;
      mass[block] = std::accumulate(shares + first, shares + end, 0.0f);
    }
    return mass;
  }

  static std::vector<int32_t> Ends(const internal::QueryBlock& rows) {
    std::vector<int32_t> ends = {0};
    if (rows.FirstOwn(kXBlock) == 0) ends.clear();  // the first block is an own one
    internal::AppendOwnBlocks(rows, kXBlock, &ends);
    return ends;
  }

  std::vector<int32_t> ShareWithEnds(const internal::QueryBlock& rows, std::vector<float> mass) const {
    std::vector<int32_t> kept = Ends(rows);
    double total = 0, forced = 0;
    for (const float one : mass) total += static_cast<double>(one);
    for (const int32_t block : kept) {
      forced += static_cast<double>(mass[static_cast<size_t>(block)]);
      mass[static_cast<size_t>(block)] = 0;
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
  const int32_t sequence_, stride_, block_groups_;
  const float scale_;
  const internal::RowGroups key_rows_;
  internal::RowGroups query_rows_;
  const int64_t kv_head_;  // of all sequences
  XAttentionKeys* const shared_;
  std::shared_ptr<const internal::GroupsInPlace<float>> keys_;  // when a block of queries asks for them first
  // Of keys that are bfloat16's numbers, where a product takes two components at a time.
  std::shared_ptr<const internal::GroupsInPlace<uint16_t>> key_pairs_;
  std::vector<uint16_t> query_pairs_;
  std::optional<internal::RoundedPanel> rounded_;  // where that is how scores are made first
  std::vector<float> gathered_;                    // queries of blocks that do not follow each other
  std::vector<float> scores_;                      // [keys at once, kColumns]
  std::vector<float> largest_, shares_;            // [key blocks, kColumns]
  std::vector<std::vector<int32_t>> chosen_;       // by block of rows of the head at hand
};

class XAttentionMethod final : public internal::PrefillSelector {
 public:
  XAttentionMethod() : PrefillSelector(XAttentionSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    XAttentionKeys shared(int64_t{problem.batch} * problem.num_kv_heads);
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          HeadSelector selector(problem, values, options, group.sequence, group.kv_head, &shared);
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i)
            selector.AddLists(group.first_head + i, builder);
        },
        index);
  }
};

}  // namespace

const PrefillMethod& XAttention() {
  static const XAttentionMethod method;
  return method;
}

}  // namespace headscope::kernels
