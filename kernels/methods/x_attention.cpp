// SPDX-License-Identifier: Apache-2.0
// XAttention: blocks chosen by the sums of their antidiagonals.
//
// Source: XAttention: Block Sparse Attention with Antidiagonal Scoring, section 2 and Algorithm 1. Queries and keys in
// groups of `stride`; the score of a pair of groups is the mean of its antidiagonal, q[last - s] . k[first + s]; a
// causal softmax over groups, summed in blocks of 128 x 128, and per row block the fewest blocks that hold the share
// tau of the sum.
//
// Choices where the paper is silent: a group of fewer rows is filled up with zeros; causality among groups is that of
// the group's last row. As in the released code the first and the own block are kept and count towards tau;
// `force_ends` 0 leaves them to the algorithm as printed. (Its thresholds come from a per-head search, which
// headscope's tuner does.)
#include <algorithm>
#include <vector>

#include "head_groups.h"
#include "internal/element.h"
#include "internal/method_choices.h"
#include "key_blocks.h"
#include "mass_share.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kBlock = 128;

MethodSpec MakeSpec() {
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
               .default_value = 1,
               .help = "always keep the first and the diagonal block, counted towards tau (as the released code does)",
               .cost = "two blocks that may hold little"},
          },
  };
}

// Rows of a tensor in groups: [num_groups, stride * head_dim] fp32, zeros where the last group has no rows.
std::vector<float> GroupRows(const StridedTensor<const void>& tensor, DType dtype, int64_t offset, int32_t num_rows,
                             int32_t head_dim, int32_t stride, bool reversed) {
  const int32_t num_groups = (num_rows + stride - 1) / stride;
  std::vector<float> groups(static_cast<size_t>(int64_t{num_groups} * stride * head_dim), 0.0f);
  for (int32_t row = 0; row < num_rows; ++row) {
    const int32_t place = reversed ? row / stride * stride + stride - 1 - row % stride : row;
    internal::LoadRow(tensor.data, dtype, offset + row * tensor.row_stride, head_dim,
                      groups.data() + int64_t{place} * head_dim);
  }
  return groups;
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
        width_(stride_ * problem.head_dim) {
    const int64_t offset = sequence * problem.k.batch_stride + kv_head * problem.k.head_stride;
    const int32_t num_keys = internal::NumVisibleKeys(problem);
    const std::vector<float> groups =
        GroupRows(problem.k, problem.dtype, offset, num_keys, problem.head_dim, stride_, /*reversed=*/false);
    keys_ = PackedKeys(groups.data(), DType::kFloat32, width_, (num_keys + stride_ - 1) / stride_, width_);
  }

  void AddLists(int32_t head, SparseIndexBuilder* builder) {
    const int64_t offset = sequence_ * problem_.q.batch_stride + head * problem_.q.head_stride;
    queries_ = GroupRows(problem_.q, problem_.dtype, offset, problem_.seq_q, problem_.head_dim, stride_,
                         /*reversed=*/true);
    const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
      const std::vector<float> mass = Mass(rows);
      *blocks = values_.Flag("force_ends") ? ShareWithEnds(rows, mass) : internal::TopShare(mass, values_.Real("tau"));
    };
    internal::AddBlockLists(problem_, options_, kBlock, kBlock, choose, builder);
  }

 private:
  // Of the groups of a block of rows, by key block.
  std::vector<float> Mass(const internal::QueryBlock& rows) {
    const int32_t first = rows.row_begin / stride_, end = (rows.row_end + stride_ - 1) / stride_;
    const auto num_groups = static_cast<int32_t>(rows.last_position / stride_) + 1;
    scores_.resize(static_cast<size_t>(end - first) * static_cast<size_t>(num_groups));
    ScoreBlock(queries_.data() + int64_t{first} * width_, width_, end - first, keys_, 0, num_groups,
               problem_.EffectiveScale() / static_cast<float>(stride_), problem_.soft_cap, scores_.data(), num_groups);
    std::vector<float> mass(static_cast<size_t>(num_groups), 0.0f);
    for (int32_t group = first; group < end; ++group) {
      const int64_t last = int64_t{problem_.first_position} + std::min((group + 1) * stride_, problem_.seq_q) - 1;
      const int64_t seen = last / stride_ + 1;
      float* const row = scores_.data() + int64_t{group - first} * num_groups;
      internal::SoftmaxInPlace(row, seen, seen);
      for (int64_t i = 0; i < seen; ++i) mass[static_cast<size_t>(i)] += row[i];
    }
    return internal::StripeSums(mass, kBlock / stride_);
  }

  std::vector<int32_t> ShareWithEnds(const internal::QueryBlock& rows, std::vector<float> mass) const {
    std::vector<int32_t> kept = {0};
    internal::AppendOwnBlocks(rows, kBlock, &kept);
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
  PackedKeys keys_;
  std::vector<float> queries_, scores_;
};

class XAttentionMethod final : public internal::PrefillSelector {
 public:
  XAttentionMethod() : PrefillSelector(MakeSpec()) {}

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
