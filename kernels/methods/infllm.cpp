// SPDX-License-Identifier: Apache-2.0
// InfLLM: units of the past stood for by a few of their tokens, the most relevant of which a step looks up.
//
// Source: InfLLM: Training-Free Long-Context Extrapolation for LLMs with an Efficient Context Memory, section 3: the
// first `n_init` tokens and the newest `n_local` are attended to; what lies between is cut into units of `block_size`
// tokens. A token's representative score is the mean of q.k over the n_local queries that follow it; a unit is stood
// for by its `n_repr` best tokens, and a step attends to the `top_k` units whose tokens have the largest sum of q.k. As
// in the released code, representatives are taken for every query head, the heads of a layer look up the same units by
// the sum of their scores, and tokens that are out of the window but do not fill a unit yet are attended to. The code's
// scores are attention probabilities inside the window in place of q.k; the paper's are taken here. Defaults are those
// of the released settings for Mistral.
//
// Positions are those of the recording: the paper gives all tokens of units one position.
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "common_parameters.h"
#include "dot.h"
#include "internal/element.h"
#include "internal/parallel_for.h"
#include "prompt_eviction.h"
#include "registry.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec InfllmSpec() {
  return {
      .name = "infllm",
      .title = "InfLLM",
      .family = "dynamic selection",
      .paper = "InfLLM: Training-Free Long-Context Extrapolation for LLMs with an Efficient Context Memory, section 3",
      .summary = "Attends to first and newest tokens, and to the units of the past whose representatives match best.",
      .always_keeps = "the first n_init and the newest n_local tokens, and those that fill no unit yet",
      .selection_cost =
          "the representatives of every unit, S n_repr d / block_size elements, of a step; their own choice among the "
          "prompt once",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .gives_candidates = true,
      .parameters = internal::InfLlmParameters(
          4096, {.n_init_help = "first tokens that are always attended to",
                 .n_local_help = "newest tokens that are always attended to; queries that score a token",
                 .top_k_help = "units that a step looks up",
                 .per_token = "one more key and value to read per token",
                 .per_unit = "block_size more keys and values to read per unit",
                 .representatives = "one more key to read per unit and query head, once"}),
  };
}

class InfLlmPolicy final : public DecodePolicy {
 public:
  InfLlmPolicy(const MethodSpec& spec, const ParameterValues& values)
      : spec_(spec),
        block_(values.Integer("block_size")),
        n_init_(values.Integer("n_init")),
        n_local_(values.Integer("n_local")),
        top_k_(values.Integer("top_k")),
        n_repr_(values.Integer("n_repr")) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions& options, DecodeEvictions*) override {
    const AttentionProblem& cache = prompt.cache;
    first_ = prompt.first_token;
    seen_ = first_ + cache.seq_k;
    units_ = 0;
    heads_.assign(static_cast<size_t>(int64_t{cache.batch} * cache.num_qo_heads), {});
    if (cache.seq_k == 0) return {};
    if (Status status = internal::CheckLastQueries(spec_, prompt, cache.seq_k); !status.ok()) return status;
    Status status = internal::ParallelFor(static_cast<int64_t>(heads_.size()), 1, options,
                                          [&](int64_t begin, int64_t end, int32_t) {
                                            for (int64_t head = begin; head < end; ++head) ScorePrompt(prompt, head);
                                          });
    if (status.ok()) CloseUnits(cache);
    return status;
  }

  // The step's query scores the tokens of its window, and units that have left it are closed.
  Status Append(const DecodeStep& step, const RunOptions&) override {
    const AttentionProblem& problem = step.problem;
    const int32_t end = step.first_token + problem.seq_k;
    for (size_t head = 0; head < heads_.size(); ++head) {
      heads_[head].scores.resize(static_cast<size_t>(end - first_), 0.0f);
      const std::vector<float> query = Row(problem.q, problem, OffsetOf(problem.q, head, problem.num_qo_heads), 0);
      std::vector<float> key(query.size());
      const int64_t keys = KeyOffset(problem, head);
      for (int32_t token = std::max(step.first_token, end - 1 - n_local_); token < end - 1; ++token) {
        internal::LoadRow(problem.k.data, problem.dtype, keys + (token - step.first_token) * problem.k.row_stride,
                          problem.head_dim, key.data());
        heads_[head].scores[static_cast<size_t>(token - first_)] += internal::Dot(query.data(), key.data(), key.size());
      }
    }
    seen_ = end;
    AttentionProblem cache = problem;
    if (step.first_token == first_) CloseUnits(cache);
    return {};
  }

  Status Step(const DecodeStep& step, const RunOptions&, DecodeSelection* selection, DecodeEvictions*) override {
    const AttentionProblem& problem = step.problem;
    const auto width = static_cast<size_t>(problem.head_dim);
    const auto of_sequence = static_cast<size_t>(problem.num_qo_heads);
    std::vector<std::vector<int32_t>> lists;
    int64_t total = 0;
    for (int32_t sequence = 0; sequence < problem.batch; ++sequence) {
      std::vector<float> scores(static_cast<size_t>(units_), 0.0f);
      for (size_t i = 0; i < of_sequence; ++i) {
        const size_t head = static_cast<size_t>(sequence) * of_sequence + i;
        const std::vector<float> query = Row(problem.q, problem, OffsetOf(problem.q, head, problem.num_qo_heads), 0);
        for (size_t unit = 0; unit < scores.size(); ++unit)
          scores[unit] += internal::Dot(query.data(), heads_[head].representatives.data() + unit * width, width);
      }
      std::vector<int32_t> tokens;
      const auto add = [&](int32_t begin, int32_t end) {
        for (int32_t token = std::max(begin, step.first_token); token < end; ++token)
          tokens.push_back(token - step.first_token);
      };
      const int32_t units_begin = std::min(first_ + n_init_, seen_);
      add(first_, units_begin);
      for (const int32_t unit : internal::TopK(scores, top_k_))
        add(units_begin + unit * block_, units_begin + (unit + 1) * block_);
      add(units_begin + units_ * block_, seen_);
      total += static_cast<int64_t>(tokens.size()) * problem.num_kv_heads;
      for (int32_t kv_head = 0; kv_head < problem.num_kv_heads; ++kv_head) lists.push_back(tokens);
    }
    *selection = internal::SelectionOfLists(problem, lists);
    // A vector per unit and query head, keys and values of what is attended to, the new key and value.
    selection->elements_to_choose = int64_t{units_} * problem.GroupSize() * problem.head_dim;
    selection->elements_moved = selection->elements_to_choose + (total / static_cast<int64_t>(lists.size()) + 1) *
                                                                    (problem.head_dim + problem.ValueDim());
    return {};
  }

 private:
  struct Head {
    std::vector<float> scores;           // of every token of the sequence so far
    std::vector<float> representatives;  // [units, head_dim]: sums of the keys that stand for a unit
  };

  static int64_t OffsetOf(const StridedTensor<const void>& tensor, size_t head, int32_t num_heads) {
    const auto number = static_cast<int64_t>(head);
    return number / num_heads * tensor.batch_stride + number % num_heads * tensor.head_stride;
  }
  static int64_t KeyOffset(const AttentionProblem& problem, size_t head) {
    return OffsetOf(problem.k, head / static_cast<size_t>(problem.GroupSize()), problem.num_kv_heads);
  }
  static std::vector<float> Row(const StridedTensor<const void>& tensor, const AttentionProblem& problem,
                                int64_t offset, int64_t row) {
    std::vector<float> values(static_cast<size_t>(problem.head_dim));
    internal::LoadRow(tensor.data, problem.dtype, offset + row * tensor.row_stride, problem.head_dim, values.data());
    return values;
  }

  // q.k summed over the n_local queries behind a token is the product with their sum, which slides from the end.
  void ScorePrompt(const DecodePrompt& prompt, int64_t number) {
    const AttentionProblem& cache = prompt.cache;
    const auto head = static_cast<size_t>(number);
    const auto width = static_cast<size_t>(cache.head_dim);
    const int64_t queries = OffsetOf(cache.q, head, cache.num_qo_heads), keys = KeyOffset(cache, head);
    heads_[head].scores.assign(static_cast<size_t>(cache.seq_k), 0.0f);
    std::vector<double> sum(width, 0.0);
    const int32_t row_zero = cache.seq_k - cache.seq_q;
    for (int32_t token = cache.seq_k - 1; token >= 0; --token) {
      const std::vector<float> key = Row(cache.k, cache, keys, token);
      double score = 0;
      for (size_t d = 0; d < width; ++d) score += sum[d] * static_cast<double>(key[d]);
      heads_[head].scores[static_cast<size_t>(token)] = static_cast<float>(score);
      const std::vector<float> query = Row(cache.q, cache, queries, token - row_zero);
      for (size_t d = 0; d < width; ++d) sum[d] += static_cast<double>(query[d]);
      if (token + n_local_ < cache.seq_k) {
        const std::vector<float> passed = Row(cache.q, cache, queries, token + n_local_ - row_zero);
        for (size_t d = 0; d < width; ++d) sum[d] -= static_cast<double>(passed[d]);
      }
    }
  }

  // Units whose tokens have all left the window of the newest token. `cache` begins at the sequence's first token.
  void CloseUnits(const AttentionProblem& cache) {
    const auto width = static_cast<size_t>(cache.head_dim);
    for (; first_ + n_init_ + int64_t{units_ + 1} * block_ + n_local_ <= seen_; ++units_) {
      const int32_t begin = n_init_ + units_ * block_;
      for (size_t head = 0; head < heads_.size(); ++head) {
        const std::span<const float> of_unit(heads_[head].scores.data() + begin, static_cast<size_t>(block_));
        std::vector<float> sum(width, 0.0f);
        for (const int32_t place : internal::TopK(of_unit, n_repr_)) {
          const std::vector<float> key = Row(cache.k, cache, KeyOffset(cache, head), begin + place);
          for (size_t d = 0; d < width; ++d) sum[d] += key[d];
        }
        heads_[head].representatives.insert(heads_[head].representatives.end(), sum.begin(), sum.end());
      }
    }
  }

  const MethodSpec& spec_;
  const int32_t block_, n_init_, n_local_, top_k_, n_repr_;
  int32_t first_ = 0, seen_ = 0;  // the sequence's first token that is kept, and tokens so far
  int32_t units_ = 0;
  std::vector<Head> heads_;  // [batch * num_qo_heads]
};

class InfLlmMethod final : public DecodeMethod {
 public:
  InfLlmMethod() : spec_(InfllmSpec()) {}
  const MethodSpec& spec() const override { return spec_; }
  int32_t PromptRows(const ParameterValues&) const override { return kAllRows; }
  // Its budget counts units: those that fit beside what is attended to in any case.
  ParameterValues WithCandidates(ParameterValues values, int tokens) const override {
    const int beside = values.Integer("n_init") + values.Integer("n_local");
    const int units = std::max(0, tokens - beside) / values.Integer("block_size");
    values.Set(spec_, "top_k", units);
    return values;
  }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<InfLlmPolicy>(spec_, values);
  }

 private:
  const MethodSpec spec_;
};

}  // namespace

const DecodeMethod& InfLlm() {
  static const InfLlmMethod method;
  return method;
}

}  // namespace headscope::kernels
