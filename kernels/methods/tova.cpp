// SPDX-License-Identifier: Apache-2.0
// TOVA: at every step the token with the least attention goes.
//
// Source: Transformers are Multi-State RNNs, section 3.2: a cache of k tokens; the newest query's probabilities,
// averaged over the heads of a layer, say which one is dropped, the same for all heads. A step attends to what is left
// and to its own token, and the drop follows. The prompt is cut to k by its last query.
#include <algorithm>
#include <memory>
#include <vector>

#include "common_parameters.h"
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
      .parameters = {internal::CachedTokens(512, 64), internal::CompressionRatio("k", "the prompt's tokens")},
  };
}

class TovaPolicy final : public DecodePolicy {
 public:
  TovaPolicy(const MethodSpec& spec, const ParameterValues& values) : spec_(spec), values_(values) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions&, DecodeEvictions* evictions) override {
    kept_.assign(static_cast<size_t>(prompt.cache.batch), {});
    end_ = prompt.first_token + prompt.cache.seq_k;
    budget_ = internal::BudgetInTokens(values_, "k", prompt.cache.seq_k);
    if (prompt.cache.seq_k == 0) return {};
    if (Status status = internal::CheckLastQueries(spec_, prompt, 1); !status.ok()) return status;
    for (std::vector<int32_t>& tokens : kept_) {
      for (int32_t token = prompt.first_token; token < end_; ++token) tokens.push_back(token);
    }
    AttentionProblem last = prompt.cache;  // its newest query
    last.q.data =
        static_cast<const std::byte*>(last.q.data) + int64_t{last.seq_q - 1} * last.q.row_stride * SizeOf(last.dtype);
    last.seq_q = 1;
    last.first_position = last.seq_k - 1;
    Shrink({.problem = last, .first_token = prompt.first_token}, evictions);
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
    std::vector<std::vector<int32_t>> lists;
    for (const std::vector<int32_t>& tokens : kept_) {
      for (int32_t kv_head = 0; kv_head < step.problem.num_kv_heads; ++kv_head) lists.push_back(tokens);
    }
    *selection = internal::SelectionOfKept(step, lists);
    Shrink(step, evictions);
    return {};
  }

 private:
  // By the step's query; what the model's own window has passed goes first.
  void Shrink(const DecodeStep& step, DecodeEvictions* evictions) {
    const AttentionProblem& problem = step.problem;
    for (size_t sequence = 0; sequence < kept_.size(); ++sequence) {
      std::vector<int32_t>& tokens = kept_[sequence];
      if (static_cast<int64_t>(tokens.size()) <= budget_) continue;
      std::vector<int32_t> seen;
      for (const int32_t token : tokens) {
        if (token >= step.first_token) seen.push_back(token - step.first_token);
      }
      std::vector<float> mean(tokens.size(), 0.0f);
      const size_t passed = tokens.size() - seen.size();
      for (int32_t kv_head = 0; kv_head < problem.num_kv_heads; ++kv_head) {
        internal::StepScores scores(problem, static_cast<int32_t>(sequence), kv_head);
        scores.Score(seen);
        scores.Softmax();
        const std::vector<float> sums = scores.Sums();
        for (size_t i = 0; i < sums.size(); ++i) mean[passed + i] += sums[i];
      }
      std::vector<int32_t> left;
      for (const int32_t place : internal::TopK(mean, budget_)) left.push_back(tokens[static_cast<size_t>(place)]);
      for (const int32_t token : tokens) {
        if (std::binary_search(left.begin(), left.end(), token)) continue;
        for (int32_t kv_head = 0; kv_head < problem.num_kv_heads; ++kv_head)
          evictions->Evict(static_cast<int64_t>(sequence) * problem.num_kv_heads + kv_head, token);
      }
      tokens = std::move(left);
    }
  }

  const MethodSpec& spec_;
  const ParameterValues values_;
  int32_t budget_ = 1;
  std::vector<std::vector<int32_t>> kept_;  // tokens of the sequence, ascending, by sequence of the batch
  int32_t end_ = 0;                         // tokens of the sequence so far
};

class TovaMethod final : public DecodeMethod {
 public:
  TovaMethod() : spec_(TovaSpec()) {}
  const MethodSpec& spec() const override { return spec_; }
  int32_t PromptRows(const ParameterValues&) const override { return 1; }
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
