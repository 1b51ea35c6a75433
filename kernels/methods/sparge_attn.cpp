// SPDX-License-Identifier: Apache-2.0
// SpargeAttn's choice of blocks, without its quantisation and its skipping of values inside the kernel.
//
// Source: SpargeAttn: Accurate Sparse Attention Accelerating Any Model Inference, section 3.3 and Algorithm 1. Blocks
// of 128 queries and 64 keys, each stood for by its mean where its rows are alike (self-similarity at least theta). Per
// row block the softmax over the means of like key blocks, of which the largest are kept as long as their sum is at
// most tau (TopCdf); unlike key blocks are kept by everybody and unlike query blocks keep everything.
//
// Self-similarity as printed: the mean of X X^T by its largest entry, which is the largest squared norm of a row; the
// released code takes the mean cosine (`similarity=cosine`). Defaults are the released code's: the paper tunes tau and
// theta layer by layer. Where the paper is silent: causality by blocks; a row block whose likeliest key block alone
// exceeds tau keeps unlike blocks only, as printed.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "head_groups.h"
#include "internal/element.h"
#include "key_blocks.h"
#include "mass_share.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kQueryBlock = 128, kKeyBlock = 64;
enum class Similarity : uint8_t { kByLargest, kCosine };

MethodSpec MakeSpec() {
  return {
      .name = "sparge-attn",
      .title = "SpargeAttn block choice",
      .family = "dynamic pattern",
      .paper = "SpargeAttn: Accurate Sparse Attention Accelerating Any Model Inference, section 3.3 and Algorithm 1",
      .summary = "Keeps blocks whose means predict the share tau of the attention, and blocks that no mean stands for.",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters =
          {
              {.name = "tau",
               .type = ParameterType::kReal,
               .default_value = 0.98,
               .step = 0.01,
               .unit = Unit::kShareOfMass,
               .help = "share of the estimated mass that a block of query rows keeps at most",
               .cost = "more blocks, and many more near 1",
               .role = ParameterRole::kMassShare},
              {.name = "theta",
               .type = ParameterType::kReal,
               .default_value = 0.6,
               .minimum = -1,
               .step = 0.05,
               .help = "self-similarity from which on a block's mean stands for it",
               .cost = "more blocks are kept unasked"},
              {.name = "similarity",
               .type = ParameterType::kChoice,
               .help = "of the rows of a block: as printed, or the released code's mean cosine",
               .cost = "nothing",
               .choices = {"paper", "cosine"}},
          },
  };
}

// Which blocks of `block` rows their mean stands for.
std::vector<bool> AlikeBlocks(const StridedTensor<const void>& tensor, const AttentionProblem& problem, int64_t offset,
                              int32_t num_rows, int32_t block, Similarity similarity, double theta) {
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
    alike.push_back(divisor > 0 ? square / divisor >= theta : theta <= 1);  // zeros are alike
  }
  return alike;
}

class SpargeAttnMethod final : public internal::PrefillSelector {
 public:
  SpargeAttnMethod() : PrefillSelector(MakeSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    const auto similarity = values.Choice<Similarity>("similarity");
    const double theta = values.Real("theta");
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const int64_t k_offset = group.sequence * problem.k.batch_stride + group.kv_head * problem.k.head_stride;
          const PackedKeys keys = internal::PoolVisibleKeys(problem, group.sequence, group.kv_head, kKeyBlock);
          const std::vector<bool> keys_alike = AlikeBlocks(
              problem.k, problem, k_offset, internal::NumVisibleKeys(problem), kKeyBlock, similarity, theta);
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i) {
            const int64_t q_offset =
                group.sequence * problem.q.batch_stride + (group.first_head + i) * problem.q.head_stride;
            const std::vector<float> queries =
                internal::PoolRows(problem.q, problem.dtype, q_offset, problem.seq_q, problem.head_dim, kQueryBlock);
            const std::vector<bool> queries_alike =
                AlikeBlocks(problem.q, problem, q_offset, problem.seq_q, kQueryBlock, similarity, theta);
            const auto choose = [&](const internal::QueryBlock& rows, std::vector<int32_t>* blocks) {
              const auto row = static_cast<size_t>(rows.number);
              const int32_t count = rows.NumKeyBlocks(kKeyBlock);
              AppendChoice(problem, queries.data() + static_cast<int64_t>(row) * problem.head_dim, queries_alike[row],
                           keys, keys_alike, count, values.Real("tau"), blocks);
            };
            internal::AddBlockLists(problem, options, kQueryBlock, kKeyBlock, choose, builder);
          }
        },
        index);
  }

  static void AppendChoice(const AttentionProblem& problem, const float* query, bool query_alike,
                           const PackedKeys& keys, const std::vector<bool>& keys_alike, int32_t count, double tau,
                           std::vector<int32_t>* blocks) {
    std::vector<float> scores(static_cast<size_t>(count));
    ScoreBlock(query, problem.head_dim, 1, keys, 0, count, internal::ScaleOf(problem), problem.soft_cap, scores.data(),
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
    internal::SoftmaxInPlace(mass.data(), size, size);
    const internal::RankedMass ranked = internal::RankMass(mass);
    for (size_t rank = 0; rank < ranked.ranking.size(); ++rank) {
      const auto place = static_cast<size_t>(ranked.ranking[rank]);
      const double reached =
          ranked.before[rank] + (std::isfinite(mass[place]) ? static_cast<double>(mass[place]) : 0.0);
      if (tau < 1 && reached > tau * ranked.total) break;
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
