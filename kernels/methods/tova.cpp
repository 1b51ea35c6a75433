// SPDX-License-Identifier: Apache-2.0
// TOVA: at every step the token with the least attention goes.
//
// Source: Transformers are Multi-State RNNs, section 3.2: a cache of k tokens; the newest query's probabilities,
// averaged over the heads of a layer, say which one is dropped, the same for all heads. A step attends to what is left
// and to its own token, and the drop follows. The prompt is cut to k by its last query.
//
// CriticalKV says what is left of a prompt that the cache does not hold; as in its source it has no part in the steps
// behind it. Its norms differ from KV head to KV head, and so does what these keep of the prompt: of a token that some
// of them have let go, the others' probabilities are the sum, and every head drops the least of its own. AdaKV would
// leave all as it is: a layer's best scores are as many in each head where all heads have the same.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common_parameters.h"
#include "layer_budgets.h"
#include "prompt_eviction.h"
#include "registry.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec TovaSpec() {
  return {
      .name = "tova",
      .title = "TOVA",
      .family = "cache eviction",
      .paper = "Transformers are Multi-State RNNs, section 3.2",
      .summary = "Evicts, step by step, the token that the newest query attends to least; all heads keep the same.",
      .always_keeps = "nothing but the token of the step itself",
      .selection_cost =
          "nothing beside the probabilities of the step, which attention makes; those of one query of the prompt",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .kvpress = {{.name = "tova", .given = {"k", "compression_ratio"}}},
      .parameters = {internal::CachedTokens(512, 64), internal::CompressionRatio("k", "the prompt's tokens"),
                     internal::CriticalParameter()},
  };
}

class TovaPolicy final : public DecodePolicy {
 public:
  TovaPolicy(const MethodSpec& spec, const ParameterValues& values) : spec_(spec), values_(values) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions&, DecodeEvictions* evictions) override {
    const AttentionProblem& cache = prompt.cache;
    kept_.assign(static_cast<size_t>(int64_t{cache.batch} * cache.num_kv_heads), {});
    end_ = prompt.first_token + cache.seq_k;
    budget_ = internal::BudgetInTokens(values_, "k", cache.seq_k);
    if (cache.seq_k == 0) return {};
    if (Status status = internal::CheckLastQueries(spec_, prompt, 1); !status.ok()) return status;
    if (Status status = internal::CheckValueNorms(spec_, prompt, values_); !status.ok()) return status;
    for (std::vector<int32_t>& tokens : kept_) {
      for (int32_t token = prompt.first_token; token < end_; ++token) tokens.push_back(token);
    }
    if (cache.seq_k <= budget_) return {};
    AttentionProblem last = cache;  // its newest query
    last.q.data =
        static_cast<const std::byte*>(last.q.data) + int64_t{last.seq_q - 1} * last.q.row_stride * SizeOf(last.dtype);
    last.seq_q = 1;
    last.first_position = last.seq_k - 1;
    const auto num_heads = static_cast<size_t>(cache.num_kv_heads);
    for (int32_t sequence = 0; sequence < cache.batch; ++sequence) {
      const std::vector<std::vector<float>> scores(
          num_heads, MeanProbabilities({.problem = last, .first_token = prompt.first_token}, sequence));
      const std::vector<std::vector<int32_t>> kept = internal::KeptByHeads(
          scores, internal::NormsByHeads(prompt, sequence, values_), budget_, /*together=*/1, values_);
      for (size_t head = 0; head < num_heads; ++head) {
        std::vector<int32_t> tokens = kept[head];
        for (int32_t& token : tokens) token += prompt.first_token;
        Leave(static_cast<size_t>(sequence) * num_heads + head, std::move(tokens), evictions);
      }
    }
    return {};
  }

  Status Append(const DecodeStep& step, const RunOptions&) override {
    for (const int32_t end = step.first_token + step.problem.seq_k; end_ < end; ++end_) {
      for (std::vector<int32_t>& tokens : kept_) tokens.push_back(end_);
    }
    return {};
  }

  Status Step(const DecodeStep& step, const RunOptions&, DecodeSelection* selection,
              DecodeEvictions* evictions) override {
    *selection = internal::SelectionOfKept(step, kept_);
    Shrink(step, evictions);
    return {};
  }

 private:
  // Of the tokens that the step sees, over the heads of its sequence that hold them; the step's own token is the last.
  std::vector<float> MeanProbabilities(const DecodeStep& step, int32_t sequence) const {
    const AttentionProblem& problem = step.problem;
    std::vector<float> mean(static_cast<size_t>(problem.seq_k), 0.0f);
    for (int32_t kv_head = 0; kv_head < problem.num_kv_heads; ++kv_head) {
      std::vector<int32_t> seen;
      for (const int32_t token : kept_[static_cast<size_t>(int64_t{sequence} * problem.num_kv_heads + kv_head)]) {
        if (token >= step.first_token) seen.push_back(token - step.first_token);
      }
      internal::StepScores scores(problem, sequence, kv_head);
      scores.Score(seen);
      scores.Softmax();
      const std::vector<float> sums = scores.Sums();
      for (size_t i = 0; i < sums.size(); ++i)
        mean[static_cast<size_t>(seen[i])] += sums[i] / static_cast<float>(problem.num_qo_heads);
    }
    return mean;
  }

  // By the step's query; what the model's own window has passed goes first.
  void Shrink(const DecodeStep& step, DecodeEvictions* evictions) {
    for (int32_t sequence = 0; sequence < step.problem.batch; ++sequence) {
      const auto num_heads = static_cast<size_t>(step.problem.num_kv_heads);
      const size_t first = static_cast<size_t>(sequence) * num_heads;
      if (static_cast<int64_t>(kept_[first].size()) <= budget_) continue;  // its heads hold as many
      const std::vector<float> mean = MeanProbabilities(step, sequence);
      for (size_t list = first; list < first + num_heads; ++list) {
        std::vector<float> scores;
        for (const int32_t token : kept_[list])
          scores.push_back(token < step.first_token ? 0.0f : mean[static_cast<size_t>(token - step.first_token)]);
        std::vector<int32_t> left;
        for (const int32_t place : internal::TopK(scores, budget_))
          left.push_back(kept_[list][static_cast<size_t>(place)]);
        Leave(list, std::move(left), evictions);
      }
    }
  }

  // `left` of the list's tokens; the others go.
  void Leave(size_t list, std::vector<int32_t> left, DecodeEvictions* evictions) {
    for (const int32_t token : kept_[list]) {
      if (!std::binary_search(left.begin(), left.end(), token)) evictions->Evict(static_cast<int64_t>(list), token);
    }
    kept_[list] = std::move(left);
  }

  const MethodSpec& spec_;
  const ParameterValues values_;
  int32_t budget_ = 1;
  std::vector<std::vector<int32_t>> kept_;  // tokens of the sequence, ascending, by list
  int32_t end_ = 0;                         // tokens of the sequence so far
};

class TovaMethod final : public DecodeMethod {
 public:
  TovaMethod() : spec_(TovaSpec()) {}
  const MethodSpec& spec() const override { return spec_; }
  int32_t PromptRows(const ParameterValues&) const override { return 1; }
  bool ChoosesForLayer(const ParameterValues&) const override { return true; }
  PromptInputs Inputs(const ParameterValues& values) const override {
    return {.value_norms = internal::AsksForValueNorms(values)};
  }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<TovaPolicy>(spec_, values);
  }

 private:
  const MethodSpec spec_;
};

}  // namespace

const DecodeMethod& Tova() {
  static const TovaMethod method;
  return method;
}

}  // namespace headscope::kernels
