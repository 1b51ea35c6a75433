// SPDX-License-Identifier: Apache-2.0
#include "prompt_eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <string>

#include "common_parameters.h"
#include "internal/parallel_for.h"
#include "kernels/stop_status.h"
#include "layer_budgets.h"
#include "step_scores.h"

namespace headscope::kernels::internal {
namespace {

int64_t UniformBudget(const ParameterValues& values, int64_t num_tokens) {
  const int64_t budget = values.Integer("budget");
  return std::min(budget > 0 ? budget : TokensLeft(values.Real(kCompressionRatio), num_tokens), num_tokens);
}

Status RefuseBudget(const PromptEvictor& method, const ParameterValues& values, int64_t budget, int64_t forced,
                    int64_t num_tokens) {
  const bool in_tokens = values.Integer("budget") > 0;
  const std::string by = method.ForcedBy();
  return {StatusCode::kInvalidArgument,
          "method " + method.spec().name + ": " + (in_tokens ? "budget is " : "compression_ratio leaves ") +
              std::to_string(budget) + " of the prompt's " + std::to_string(num_tokens) + " tokens, and " + by +
              " alone " + (by.find(' ') == std::string::npos ? "keeps " : "keep ") + std::to_string(forced) + "; " +
              (in_tokens ? "raise budget" : "lower compression_ratio") + " or lower " + by};
}

class PromptPolicy final : public DecodePolicy {
 public:
  PromptPolicy(const PromptEvictor& method, const ParameterValues& values) : method_(method), values_(values) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions& options, DecodeEvictions* evictions) override {
    const AttentionProblem& cache = prompt.cache;
    const auto num_lists = static_cast<size_t>(int64_t{cache.batch} * cache.num_kv_heads);
    kept_.assign(num_lists, {});
    end_ = prompt.first_token + cache.seq_k;
    if (cache.seq_k == 0) return {};
    if (Status status = method_.CheckPrompt(prompt, values_); !status.ok()) return status;
    if (Status status = CheckValueNorms(method_.spec(), prompt, values_); !status.ok()) return status;
    std::vector<std::vector<float>> scores(num_lists);
    Status status = ParallelFor(static_cast<int64_t>(num_lists), 1, options, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t list = begin; list < end; ++list) {
        scores[static_cast<size_t>(list)] =
            method_.Score({prompt, static_cast<int32_t>(list / cache.num_kv_heads),
                           static_cast<int32_t>(list % cache.num_kv_heads), options.stop},
                          values_);
      }
    });
    if (!status.ok()) return status;
    if (options.stop.stop_requested()) return Stopped();
    const int64_t uniform = UniformBudget(values_, cache.seq_k);
    const int64_t forced = std::count_if(scores.front().begin(), scores.front().end(), StaysInAnyCase);
    if (forced > uniform && forced < cache.seq_k) return RefuseBudget(method_, values_, uniform, forced, cache.seq_k);
    try {
      // A prompt of nothing but what is kept in any case stays as it is.
      const int64_t budget = std::clamp<int64_t>(method_.Budget(uniform, prompt, values_), forced, cache.seq_k);
      for (int32_t sequence = 0; sequence < cache.batch; ++sequence) {
        const size_t first = static_cast<size_t>(sequence) * static_cast<size_t>(cache.num_kv_heads);
        const std::vector<std::vector<float>> of_sequence(
            scores.begin() + static_cast<int64_t>(first),
            scores.begin() + static_cast<int64_t>(first) + cache.num_kv_heads);
        std::vector<std::vector<int32_t>> kept =
            KeptByHeads(of_sequence, NormsByHeads(prompt, sequence, values_), budget, values_.Integer(kChunk), values_,
                        method_.UnitOfScores());
        for (size_t head = 0; head < kept.size(); ++head)
          Settle(prompt, static_cast<int64_t>(first + head), std::move(kept[head]), evictions);
      }
    } catch (const std::bad_alloc&) {
      return {StatusCode::kOutOfMemory, "not enough memory for the scores of the prompt's tokens"};
    }
    return {};
  }

  Status Append(const DecodeStep& step, const RunOptions&) override {
    for (const int32_t end = step.first_token + step.problem.seq_k; end_ < end; ++end_) {
      for (std::vector<int32_t>& list : kept_) list.push_back(end_);
    }
    return {};
  }

  Status Step(const DecodeStep& step, const RunOptions&, DecodeSelection* selection, DecodeEvictions*) override {
    *selection = SelectionOfKept(step, kept_);
    return {};
  }

 private:
  // Tokens of the prompt become tokens of the sequence; the others go.
  void Settle(const DecodePrompt& prompt, int64_t list, std::vector<int32_t> kept, DecodeEvictions* evictions) {
    size_t next = 0;
    for (int32_t token = 0; token < prompt.cache.seq_k; ++token) {
      if (next < kept.size() && kept[next] == token) {
        ++next;
      } else {
        evictions->Evict(list, prompt.first_token + token);
      }
    }
    for (int32_t& token : kept) token += prompt.first_token;
    kept_[static_cast<size_t>(list)] = std::move(kept);
  }

  const PromptEvictor& method_;
  const ParameterValues values_;
  std::vector<std::vector<int32_t>> kept_;  // tokens of the sequence, by list
  int32_t end_ = 0;                         // tokens of the sequence so far
};

int64_t Offset(const StridedTensor<const void>& tensor, const PromptHead& head, int32_t token) {
  return head.sequence * tensor.batch_stride + head.kv_head * tensor.head_stride + token * tensor.row_stride;
}

}  // namespace

std::vector<ParameterSpec> EvictionParameters() {
  std::vector<ParameterSpec> parameters = {
      {.name = kCompressionRatio,
       .type = ParameterType::kReal,
       .default_value = 0.5,
       .maximum = 1,
       .step = 0.05,
       .help = "share of the prompt's tokens that is evicted if budget is 0",
       .cost = "less to read, and more lost"},
      {.name = "budget",
       .default_value = 0,
       .minimum = 0,
       .maximum = 1 << 20,
       .step = 64,
       .unit = Unit::kTokens,
       .help = "tokens of the prompt that are kept (0: set by compression_ratio)",
       .cost = "one more key and value to read per token",
       .role = ParameterRole::kBudget,
       .least_budget = 1},
  };
  for (ParameterSpec& parameter : HeadBudgetParameters("budget")) parameters.push_back(std::move(parameter));
  parameters.push_back(
      {.name = kChunk,
       .default_value = 1,
       .minimum = 1,
       .maximum = 1 << 16,
       .step = 1,
       .unit = Unit::kTokens,
       .help =
           "neighbouring tokens that are kept or evicted together, by their mean score (ChunkKV; 1: each by itself)",
       .cost = "keeps tokens of a low score"});
  return parameters;
}

ParameterSpec SinksThatStay() {
  return {.name = "n_sink",
          .default_value = 4,
          .minimum = 0,
          .maximum = 1 << 16,
          .step = 1,
          .unit = Unit::kTokens,
          .help = "first tokens that stay",
          .cost = "takes places from other tokens"};
}

std::vector<ParameterSpec> WithEvictionParameters(std::vector<ParameterSpec> own) {
  for (ParameterSpec& parameter : EvictionParameters()) own.push_back(std::move(parameter));
  return own;
}

int64_t PromptHead::KeyOffset(int32_t token) const {
  return Offset(prompt.cache.k, *this, token);
}

int64_t PromptHead::ValueOffset(int32_t token) const {
  return Offset(prompt.cache.v, *this, token);
}

std::unique_ptr<DecodePolicy> PromptEvictor::NewPolicy(const ParameterValues& values) const {
  return std::make_unique<PromptPolicy>(*this, values);
}

std::optional<double> PromptEvictor::AskedCompression(const ParameterValues& values) const {
  if (values.Integer("budget") > 0) return {};
  return values.Real(kCompressionRatio);
}

Status PromptEvictor::CheckPrompt(const DecodePrompt& prompt, const ParameterValues& values) const {
  return CheckLastQueries(spec_, prompt, PromptRows(values));
}

Status CheckLastQueries(const MethodSpec& spec, const DecodePrompt& prompt, int32_t rows) {
  const int32_t wanted = std::min(rows, prompt.cache.seq_k);
  if (prompt.cache.seq_q >= wanted) return {};
  return {StatusCode::kUnsupported, spec.name + " chooses by the prompt's last " + std::to_string(wanted) +
                                        " queries, and " + std::to_string(prompt.cache.seq_q) +
                                        " are at hand: record the prompt's rows"};
}

DecodeSelection SelectionOfKept(const DecodeStep& step, const std::vector<std::vector<int32_t>>& kept) {
  std::vector<std::vector<int32_t>> tokens;
  int64_t total = 0;
  for (const std::vector<int32_t>& list : kept) {
    std::vector<int32_t>& seen = tokens.emplace_back(std::ranges::lower_bound(list, step.first_token), list.end());
    if (step.first_token > 0) std::ranges::for_each(seen, [&](int32_t& token) { token -= step.first_token; });
    total += static_cast<int64_t>(seen.size());
  }
  DecodeSelection selection = SelectionOfLists(step.problem, tokens);
  selection.elements_moved =
      (total / static_cast<int64_t>(kept.size()) + 1) * (step.problem.head_dim + step.problem.ValueDim());
  return selection;
}

}  // namespace headscope::kernels::internal

namespace headscope::kernels {

std::optional<PromptVotes> PromptVotesOf(const DecodeMethod& method, const ParameterValues& values,
                                         int32_t num_tokens) {
  const auto* const evictor = dynamic_cast<const internal::PromptEvictor*>(&method);
  if (evictor == nullptr || num_tokens < 1) return {};
  // As many tokens for every KV head, one by one and by their scores alone.
  if (!internal::KeepsByScoresAlone(values) || values.Integer(internal::kChunk) > 1) return {};
  const auto budget = static_cast<int32_t>(internal::UniformBudget(values, num_tokens));
  std::optional<PromptVotes> votes = evictor->Votes(values, budget);
  if (!votes) return {};
  const int32_t forced = std::min(votes->window, num_tokens);
  if (forced > budget && forced < num_tokens) return {};
  votes->kept = std::max(budget, forced);
  return votes;
}

}  // namespace headscope::kernels
