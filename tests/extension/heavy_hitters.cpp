// SPDX-License-Identifier: Apache-2.0
// A decode method with state as an extension adds it: it keeps k tokens per KV head, the newest and those that the
// attention so far gave most to, and evicts the others for good ("H2O: Heavy-Hitter Oracle for Efficient Generative
// Inference of Large Language Models", algorithm 1, with the sums of a KV head's query heads).
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "internal/element.h"
#include "kernels/decode_policy.h"
#include "methods/registry.h"

namespace headscope::kernels {
namespace {

MethodSpec MakeSpec() {
  return {
      .name = "heavy-hitters",
      .title = "Heavy hitters",
      .family = "eviction",
      .paper = "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models, algorithm 1",
      .summary = "Keeps the newest tokens and those that attention gave most to; evicts the others for good.",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .parameters =
          {
              {.name = "k",
               .default_value = 256,
               .minimum = 2,
               .maximum = 1 << 20,
               .step = 16,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "tokens that a KV head keeps from one step to the next",
               .cost = "one more key and value to read per token",
               .role = ParameterRole::kBudget},
              {.name = "recent_share",
               .type = ParameterType::kReal,
               .default_value = 0.5,
               .minimum = 0,
               .maximum = 1,
               .step = 0.05,
               .unit = Unit::kShareOfParameter,
               .share_of = "k",
               .help = "share of k that the newest tokens have",
               .cost = "fewer heavy hitters"},
          },
  };
}

class HeavyHitterPolicy final : public DecodePolicy {
 public:
  explicit HeavyHitterPolicy(const ParameterValues& values)
      : k_(values.Integer("k")), recent_(static_cast<int32_t>(std::floor(k_ * values.Real("recent_share")))) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions&, DecodeEvictions* evictions) override {
    const AttentionProblem& cache = prompt.cache;
    lists_.assign(static_cast<size_t>(int64_t{cache.batch} * cache.num_kv_heads), {});
    for (size_t list = 0; list < lists_.size(); ++list) {
      for (int32_t token = 0; token < cache.seq_k; ++token) lists_[list].push_back({prompt.first_token + token, 0});
      if (prompt.lse != nullptr) AddPrompt(prompt, static_cast<int64_t>(list));
      Evict(static_cast<int64_t>(list), evictions);
    }
    return {};
  }

  Status Step(const DecodeStep& step, const RunOptions&, DecodeSelection* selection,
              DecodeEvictions* evictions) override {
    const AttentionProblem& problem = step.problem;
    const int32_t newest = step.first_token + problem.seq_k - 1;
    DecodeSelection made;
    made.batch = problem.batch;
    made.num_qo_heads = problem.num_qo_heads;
    made.num_kv_heads = problem.num_kv_heads;
    made.page_begin = {0};
    for (size_t list = 0; list < lists_.size(); ++list) {
      std::vector<Kept>& kept = lists_[list];
      std::erase_if(kept, [&](const Kept& token) { return token.token < step.first_token; });  // the model's window
      kept.push_back({newest, 0});
      for (const Kept& token : kept) made.pages.push_back(token.token - step.first_token);
      made.page_begin.push_back(static_cast<int64_t>(made.pages.size()));
      made.elements_moved += static_cast<int64_t>(kept.size()) * (problem.head_dim + problem.ValueDim());
      AddStep(step, static_cast<int64_t>(list));
      Evict(static_cast<int64_t>(list), evictions);
    }
    made.elements_moved /= static_cast<int64_t>(lists_.size());
    *selection = std::move(made);
    return {};
  }

 private:
  struct Kept {
    int32_t token;  // in the sequence
    double mass;    // that it was given so far
  };

  static double Score(const AttentionProblem& problem, int64_t batch, int64_t head, int64_t row, int64_t column) {
    const int64_t kv_head = head / problem.GroupSize();
    const int64_t q = batch * problem.q.batch_stride + head * problem.q.head_stride + row * problem.q.row_stride;
    const int64_t k = batch * problem.k.batch_stride + kv_head * problem.k.head_stride + column * problem.k.row_stride;
    double dot = 0;
    for (int32_t d = 0; d < problem.head_dim; ++d) {
      dot += static_cast<double>(internal::LoadElement(problem.q.data, problem.dtype, q + d)) *
             static_cast<double>(internal::LoadElement(problem.k.data, problem.dtype, k + d));
    }
    const double scale = problem.scale != 0 ? static_cast<double>(problem.scale) : 1 / std::sqrt(problem.head_dim);
    const double cap = problem.soft_cap;
    return cap > 0 ? cap * std::tanh(scale * dot / cap) : scale * dot;
  }

  // What the prompt's rows give to each token, by their log-sum-exp.
  void AddPrompt(const DecodePrompt& prompt, int64_t list) {
    const AttentionProblem& cache = prompt.cache;
    const int64_t batch = list / cache.num_kv_heads, first = list % cache.num_kv_heads * cache.GroupSize();
    for (int64_t head = first; head < first + cache.GroupSize(); ++head) {
      for (int64_t row = 0; row < cache.seq_q; ++row) {
        const double lse = prompt.lse[batch * prompt.lse_batch_stride + head * prompt.lse_head_stride + row];
        for (int64_t column = 0; column <= cache.first_position + row; ++column) {
          lists_[static_cast<size_t>(list)][static_cast<size_t>(column)].mass +=
              std::exp(Score(cache, batch, head, row, column) - lse);
        }
      }
    }
  }

  // What the step's row gives to the tokens that are kept.
  void AddStep(const DecodeStep& step, int64_t list) {
    const AttentionProblem& problem = step.problem;
    std::vector<Kept>& kept = lists_[static_cast<size_t>(list)];
    const int64_t batch = list / problem.num_kv_heads, first = list % problem.num_kv_heads * problem.GroupSize();
    for (int64_t head = first; head < first + problem.GroupSize(); ++head) {
      std::vector<double> scores;
      for (const Kept& token : kept) scores.push_back(Score(problem, batch, head, 0, token.token - step.first_token));
      const double largest = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (double& score : scores) sum += score = std::exp(score - largest);
      for (size_t i = 0; i < kept.size(); ++i) kept[i].mass += scores[i] / sum;
    }
  }

  // The least heavy of the older ones, until k are left; of equals the oldest.
  void Evict(int64_t list, DecodeEvictions* evictions) {
    std::vector<Kept>& kept = lists_[static_cast<size_t>(list)];
    const auto excess = static_cast<std::ptrdiff_t>(kept.size()) - k_;
    if (excess <= 0) return;
    std::vector<Kept> older(kept.begin(), kept.end() - std::min<std::ptrdiff_t>(recent_, std::ssize(kept)));
    std::stable_sort(older.begin(), older.end(), [](const Kept& a, const Kept& b) { return a.mass < b.mass; });
    for (std::ptrdiff_t i = 0; i < excess; ++i) {
      const int32_t gone = older[static_cast<size_t>(i)].token;
      evictions->Evict(list, gone);
      std::erase_if(kept, [&](const Kept& token) { return token.token == gone; });
    }
  }

  const int32_t k_, recent_;
  std::vector<std::vector<Kept>> lists_;  // by list, ascending tokens
};

class HeavyHitterMethod final : public DecodeMethod {
 public:
  const MethodSpec& spec() const override { return spec_; }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<HeavyHitterPolicy>(values);
  }

 private:
  const MethodSpec spec_ = MakeSpec();
};

}  // namespace

const DecodeMethod& HeavyHitters() {
  static const HeavyHitterMethod method;
  return method;
}

}  // namespace headscope::kernels
