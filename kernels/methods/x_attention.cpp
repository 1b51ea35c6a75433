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

MethodSpec XAttentionSpec() {
  return {
      .name = "x-attention",
      .title = "XAttention",
      .family = "dynamic pattern",
      .paper = "XAttention: Block Sparse Attention with Antidiagonal Scoring, section 2 and Algorithm 1",
      .summary =
          "Keeps, per block of 128 queries, the fewest blocks of 128 keys that hold the share tau of the "
          "antidiagonal scores.",
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

// Where row `row` of a tensor lies in its groups of `stride`: a group's rows are one behind the other, queries in
// reverse, so that the sum of an antidiagonal is the product of two groups.
int32_t PlaceOf(int32_t row, int32_t stride, bool reversed) {
  return reversed ? row / stride * stride + stride - 1 - row % stride : row;
}

// Rows [row_begin, row_end) of a tensor in groups, [groups, stride * head_dim] in fp32, from the group of row_begin on;
// zeros where the last group has no rows.
void GroupRows(const StridedTensor<const void>& tensor, DType dtype, int64_t offset, int32_t row_begin, int32_t row_end,
               int32_t head_dim, int32_t stride, bool reversed, std::vector<float>* groups) {
  const int32_t num_groups = (row_end - row_begin + stride - 1) / stride;
  groups->assign(static_cast<size_t>(int64_t{num_groups} * stride * head_dim), 0.0f);
  for (int32_t row = row_begin; row < row_end; ++row) {
    internal::LoadRow(tensor.data, dtype, offset + row * tensor.row_stride, head_dim,
                      groups->data() + int64_t{PlaceOf(row - row_begin, stride, reversed)} * head_dim);
  }
}

// The same of bfloat16, as it is, and of fp32 that holds bfloat16's values: false where it holds others.
bool GroupRows(const StridedTensor<const void>& tensor, DType dtype, int64_t offset, int32_t row_begin, int32_t row_end,
               int32_t head_dim, int32_t stride, bool reversed, std::vector<uint16_t>* groups) {
  const int32_t num_groups = (row_end - row_begin + stride - 1) / stride;
  groups->assign(static_cast<size_t>(int64_t{num_groups} * stride * head_dim), 0);
  uint32_t lost = 0;  // bits that bfloat16 has not
  for (int32_t row = row_begin; row < row_end; ++row) {
    const int64_t first = offset + row * tensor.row_stride;
    uint16_t* const to = groups->data() + int64_t{PlaceOf(row - row_begin, stride, reversed)} * head_dim;
    if (dtype == DType::kBFloat16) {
      std::copy_n(static_cast<const uint16_t*>(tensor.data) + first, head_dim, to);
      continue;
    }
    const float* const values = static_cast<const float*>(tensor.data) + first;
    for (int32_t d = 0; d < head_dim; ++d) {
      const auto bits = std::bit_cast<uint32_t>(values[d]);
      lost |= bits & 0xffffu;
      to[d] = static_cast<uint16_t>(bits >> 16);
    }
  }
  return lost == 0;
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
        key_offset_(sequence * problem.k.batch_stride + kv_head * problem.k.head_stride) {
    // What a trace recorded in bfloat16 is, read as fp32, the same numbers still.
    const bool may_be = problem.dtype == DType::kBFloat16 || problem.dtype == DType::kFloat32;
    if (!may_be || problem.soft_cap != 0 || !internal::HasBFloat16Products()) return;
    const int32_t num_keys = internal::NumVisibleKeys(problem);
    by_pairs_ = GroupRows(problem.k, problem.dtype, key_offset_, 0, num_keys, problem.head_dim, stride_,
                          /*reversed=*/false, &query_pairs_);
    if (by_pairs_) key_pairs_ = internal::BFloat16Keys(query_pairs_.data(), (num_keys + stride_ - 1) / stride_, width_);
  }

  void AddLists(int32_t head, SparseIndexBuilder* builder) {
    offset_ = sequence_ * problem_.q.batch_stride + head * problem_.q.head_stride;
    const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
      const std::vector<float> mass = Mass(rows);
      *blocks = values_.Flag("force_ends") ? ShareWithEnds(rows, mass) : internal::TopShare(mass, values_.Real("tau"));
    };
    internal::AddBlockLists(problem_, options_, kXBlock, kXBlock, choose, builder);
  }

 private:
  // The scores of the block's groups of queries in base 2, rows of the returned length.
  int64_t Score(const internal::QueryBlock& rows, int32_t num_query_groups, int32_t num_key_groups) {
    constexpr int64_t kPanel = 64;
    const int64_t length = (num_key_groups + kPanel - 1) / kPanel * kPanel;
    scores_.resize(static_cast<size_t>(num_query_groups * length));
    constexpr float to_base_2 = std::numbers::log2e_v<float>;
    const float scale = problem_.EffectiveScale() / static_cast<float>(stride_) * to_base_2;
    if (by_pairs_ && GroupRows(problem_.q, problem_.dtype, offset_, rows.row_begin, rows.row_end, problem_.head_dim,
                               stride_, /*reversed=*/true, &query_pairs_)) {
      internal::ScoreBFloat16(query_pairs_.data(), num_query_groups, key_pairs_, num_key_groups, scale, scores_.data(),
                              length);
      return length;
    }
    GroupRows(problem_.q, problem_.dtype, offset_, rows.row_begin, rows.row_end, problem_.head_dim, stride_,
              /*reversed=*/true, &queries_);
    ScoreBlock(queries_.data(), width_, num_query_groups, Keys(), 0, num_key_groups, scale,
               problem_.soft_cap * to_base_2, scores_.data(), length);
    return length;
  }

  // In fp32, made when a block of queries asks for them first.
  const PackedKeys& Keys() {
    if (keys_.data() != nullptr) return keys_;
    std::vector<float> groups;
    const int32_t num_keys = internal::NumVisibleKeys(problem_);
    GroupRows(problem_.k, problem_.dtype, key_offset_, 0, num_keys, problem_.head_dim, stride_, /*reversed=*/false,
              &groups);
    keys_ = PackedKeys(groups.data(), DType::kFloat32, width_, (num_keys + stride_ - 1) / stride_, width_);
    return keys_;
  }

  // Of the groups of a block of rows, by key block.
  std::vector<float> Mass(const internal::QueryBlock& rows) {
    // A block begins with a group: strides divide its rows.
    const int32_t first = rows.row_begin / stride_, end = (rows.row_end + stride_ - 1) / stride_;
    const auto num_groups = static_cast<int32_t>(rows.last_position / stride_) + 1;
    const int64_t length = Score(rows, end - first, num_groups);
    std::vector<float> mass(static_cast<size_t>(num_groups), 0.0f);
    for (int32_t group = first; group < end; ++group) {
      const int64_t last = int64_t{problem_.first_position} + std::min((group + 1) * stride_, problem_.seq_q) - 1;
      const int64_t seen = last / stride_ + 1;
      float* const row = scores_.data() + (group - first) * length;
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
  const int64_t key_offset_;  // of the first key
  bool by_pairs_ = false;     // products of two bfloat16 components at a time
  PackedKeys keys_;
  internal::BFloat16Keys key_pairs_;
  int64_t offset_ = 0;  // of the head's first query
  std::vector<float> queries_, scores_;
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
