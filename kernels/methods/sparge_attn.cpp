// SPDX-License-Identifier: Apache-2.0
// SpargeAttn's choice of blocks, without its quantisation and its skipping of values inside the kernel.
//
// Source: SpargeAttn: Accurate Sparse Attention Accelerating Any Model Inference, section 3.3 and Algorithm 1, and the
// released code. Blocks of 128 queries and 64 keys, each stood for by its mean where its rows are alike
// (self-similarity above theta). Per row block the softmax over the means of like key blocks, of which the largest are
// kept, one at least, as long as their sum is at most tau (TopCdf); unlike key blocks are kept by everybody and unlike
// query blocks keep everything. Likeness is the mean of X X^T by its largest entry, which is the largest squared norm
// of a row.
//
// The released code takes the mean key off all keys first (`centre`), has the mean cosine of two rows for likeness
// (`similarity=cosine`), and advises to keep the share tau of the problem's key blocks instead (`rule=top_k`). The
// paper tunes tau and theta layer by layer and names no number: tau 0.98 is the code's, and at theta -0.1, its advice
// of today, every mean stands for its block. Where the sources are silent: causality by blocks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "head_groups.h"
#include "internal/element.h"
#include "internal/method_choices.h"
#include "key_blocks.h"
#include "mass_share.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kQueryBlock = 128, kKeyBlock = 64;
using Rule = internal::SpargeRule;
using Similarity = internal::SpargeSimilarity;

MethodSpec SpargeAttnSpec() {
  return {
      .name = "sparge-attn",
      .title = "SpargeAttn block selection",
      .family = "dynamic pattern",
      .paper = "SpargeAttn: Accurate Sparse Attention Accelerating Any Model Inference, section 3.3 and Algorithm 1",
      .summary =
          "Keeps blocks whose means predict the share tau of the attention, and blocks too varied to be judged by "
          "their mean.",
      .always_keeps = "key blocks, and rows of query blocks, whose mean does not stand for them",
      .selection_cost =
          "the means of blocks and their likeness, 2 S (128 + 64) d FLOPs, and 2 S^2 d / (128 * 64), a head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters =
          {
              {.name = "tau",
               .type = ParameterType::kReal,
               .default_value = 0.98,
               .step = 0.01,
               .help = "share of the estimated mass that a block of query rows keeps at most, or of the key blocks by "
                       "rule top_k (the released code: 0.98 and 0.5)",
               .cost = "more blocks, and many more near 1",
               .role = ParameterRole::kBudget},
              {.name = "rule",
               .type = ParameterType::kChoice,
               .help = "what tau is a share of: the estimated mass, or the number of key blocks (the released code)",
               .cost = "nothing",
               .choices = {"cdf", "top_k"}},
              {.name = "theta",
               .type = ParameterType::kReal,
               .default_value = -0.1,
               .minimum = -1,
               .step = 0.05,
               .help = "self-similarity above which a block's mean stands for it (the released code: 0.6 by cosine and "
                       "rule cdf)",
               .cost = "more blocks are kept whatever their scores"},
              {.name = "similarity",
               .type = ParameterType::kChoice,
               .help = "self-similarity of a block's rows: as in the paper, or their mean cosine (the released code)",
               .cost = "nothing",
               .choices = {"paper", "cosine"}},
              {.name = "centre",
               .type = ParameterType::kFlag,
               .help = "subtract the mean key from all keys first (the released code: 1)",
               .cost = "nothing"},
          },
  };
}

// What is taken off every row; [head_dim].
std::vector<float> MeanRow(const StridedTensor<const void>& tensor, const AttentionProblem& problem, int64_t offset,
                           int32_t num_rows) {
  return internal::PoolRows(tensor, problem.dtype, offset, num_rows, problem.head_dim, num_rows);
}

// Which blocks of `block` rows, less `shift`, their mean stands for.
std::vector<bool> AlikeBlocks(const StridedTensor<const void>& tensor, const AttentionProblem& problem, int64_t offset,
                              int32_t num_rows, int32_t block, Similarity similarity, double theta,
                              const std::vector<float>& shift) {
  const auto width = static_cast<size_t>(problem.head_dim);
  std::vector<bool> alike;
  std::vector<float> row(width);
  std::vector<double> sum(width);
  for (int32_t begin = 0; begin < num_rows; begin += block) {
    const int32_t end = std::min(begin + block, num_rows);
    std::fill(sum.begin(), sum.end(), 0.0);
    double largest = 0;
    for (int32_t r = begin; r < end; ++r) {
      internal::LoadRow(tensor.data, problem.dtype, offset + r * tensor.row_stride, problem.head_dim, row.data());
      for (size_t d = 0; d < width; ++d) row[d] -= shift[d];
      double square = 0;
      for (const float x : row) square += static_cast<double>(x) * static_cast<double>(x);
      largest = std::max(largest, square);
      const double divisor = similarity == Similarity::kCosine ? std::sqrt(square) : 1.0;
      for (size_t d = 0; d < width && divisor > 0; ++d) sum[d] += static_cast<double>(row[d]) / divisor;
    }
    // The mean of all products of two rows is the squared norm of the mean row.
    double square = 0;
    for (const double x : sum) square += x * x;
    square /= static_cast<double>(end - begin) * static_cast<double>(end - begin);
    const double divisor = similarity == Similarity::kCosine ? 1.0 : largest;
    alike.push_back(divisor > 0 ? square / divisor > theta : true);  // zeros are alike
  }
  return alike;
}

class SpargeAttnMethod final : public internal::PrefillSelector {
 public:
  SpargeAttnMethod() : PrefillSelector(SpargeAttnSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const auto similarity = values.Choice<Similarity>("similarity");
    const double theta = values.Real("theta");
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const int64_t k_offset = group.sequence * problem.k.batch_stride + group.kv_head * problem.k.head_stride;
          const int32_t num_keys = internal::NumVisibleKeys(problem);
          const std::vector<float> none(static_cast<size_t>(problem.head_dim), 0.0f);
          const std::vector<float> mean =
              values.Flag("centre") ? MeanRow(problem.k, problem, k_offset, num_keys) : none;
          const PackedKeys keys = CentredMeans(problem, k_offset, num_keys, mean);
          const std::vector<bool> keys_alike =
              AlikeBlocks(problem.k, problem, k_offset, num_keys, kKeyBlock, similarity, theta, mean);
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i) {
            const int64_t q_offset =
                group.sequence * problem.q.batch_stride + (group.first_head + i) * problem.q.head_stride;
            const std::vector<float> queries =
                internal::PoolRows(problem.q, problem.dtype, q_offset, problem.seq_q, problem.head_dim, kQueryBlock);
            const std::vector<bool> queries_alike =
                AlikeBlocks(problem.q, problem, q_offset, problem.seq_q, kQueryBlock, similarity, theta, none);
            const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
              const auto row = static_cast<size_t>(rows.number);
              const int32_t count = rows.NumKeyBlocks(kKeyBlock);
              AppendChoice(problem, queries.data() + static_cast<int64_t>(row) * problem.head_dim, queries_alike[row],
                           keys, keys_alike, count, values, blocks);
            };
            internal::AddBlockLists(problem, options, kQueryBlock, kKeyBlock, choose, builder);
          }
        },
        index);
  }

  // Means of key blocks, less `mean`.
  static PackedKeys CentredMeans(const AttentionProblem& problem, int64_t offset, int32_t num_keys,
                                 const std::vector<float>& mean) {
    std::vector<float> means =
        internal::PoolRows(problem.k, problem.dtype, offset, num_keys, problem.head_dim, kKeyBlock);
    for (size_t at = 0; at < means.size(); ++at) means[at] -= mean[at % mean.size()];
    return {means.data(), DType::kFloat32, problem.head_dim, (num_keys + kKeyBlock - 1) / kKeyBlock, problem.head_dim};
  }

  static void AppendChoice(const AttentionProblem& problem, const float* query, bool query_alike,
                           const PackedKeys& keys, const std::vector<bool>& keys_alike, int32_t count,
                           const ParameterValues& values, std::vector<int32_t>* blocks) {
    std::vector<float> scores(static_cast<size_t>(count));
    ScoreBlock(query, problem.head_dim, 1, keys, 0, count, problem.EffectiveScale(), problem.soft_cap, scores.data(),
               count);
    std::vector<int32_t> alike;
    std::vector<float> mass;
    for (int32_t block = 0; block < count; ++block) {
      if (keys_alike[static_cast<size_t>(block)] && query_alike) {
        alike.push_back(block);
        mass.push_back(scores[static_cast<size_t>(block)]);
      } else {
        blocks->push_back(block);
      }
    }
    if (alike.empty()) return;
    const auto size = static_cast<int64_t>(mass.size());
    const double tau = values.Real("tau");
    if (values.Choice<Rule>("rule") == Rule::kTopK) {
      const double wanted = tau * keys.seq_k() + 1e-9;
      for (const int32_t place : internal::TopK(mass, std::max<int64_t>(1, static_cast<int64_t>(wanted))))
        blocks->push_back(alike[static_cast<size_t>(place)]);
      return;
    }
    internal::SoftmaxInPlace(mass.data(), size, size);
    const internal::RankedMass ranked = internal::RankMass(mass);
    for (size_t rank = 0; rank < ranked.ranking.size(); ++rank) {
      const auto place = static_cast<size_t>(ranked.ranking[rank]);
      const double reached =
          ranked.before[rank] + (std::isfinite(mass[place]) ? static_cast<double>(mass[place]) : 0.0);
      if (rank > 0 && tau < 1 && reached > tau * ranked.total) break;
      blocks->push_back(alike[place]);
    }
  }
};

}  // namespace

const PrefillMethod& SpargeAttn() {
  static const SpargeAttnMethod method;
  return method;
}

}  // namespace headscope::kernels
