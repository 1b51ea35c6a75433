// SPDX-License-Identifier: Apache-2.0
#include "prompt_eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <string>

#include "internal/parallel_for.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels::internal {
namespace {

enum class Allocation : uint8_t { kUniform, kAda };

int64_t UniformBudget(const ParameterValues& values, int64_t num_tokens) {
  const int64_t budget = values.Integer("budget");
  // A product that is whole but for its rounding is that number.
  constexpr double kRounding = 1e-9;
  const double by_ratio = (1 - values.Real("compression_ratio")) * static_cast<double>(num_tokens);
  return budget > 0 ? budget : static_cast<int64_t>(std::floor(by_ratio + kRounding));
}

// What each head of a sequence keeps, ascending.
std::vector<std::vector<int32_t>> Keep(std::span<std::vector<float>> scores, int64_t budget,
                                       const ParameterValues& values) {
  std::vector<std::vector<int32_t>> kept;
  for (const std::vector<float>& of_head : scores) {
    const bool ada = values.Choice<Allocation>("allocation") == Allocation::kAda;
    const double own = ada ? values.Real("ada_floor") * static_cast<double>(budget) : static_cast<double>(budget);
    kept.push_back(TopK(of_head, static_cast<int64_t>(own)));
  }
  if (values.Choice<Allocation>("allocation") == Allocation::kUniform) return kept;
  // The best of all heads, behind what each has of its own.
  const size_t length = scores.front().size();
  std::vector<float> all;
  for (size_t head = 0; head < scores.size(); ++head) {
    std::vector<float> of_head = scores[head];
    for (const int32_t token : kept[head]) of_head[static_cast<size_t>(token)] = std::numeric_limits<float>::infinity();
    all.insert(all.end(), of_head.begin(), of_head.end());
    kept[head].clear();
  }
  for (const int32_t place : TopK(all, budget * static_cast<int64_t>(scores.size()))) {
    const auto at = static_cast<size_t>(place);
    kept[at / length].push_back(static_cast<int32_t>(at % length));
  }
  return kept;
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
    std::vector<std::vector<float>> scores(num_lists);
    Status status = ParallelFor(static_cast<int64_t>(num_lists), 1, options, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t list = begin; list < end; ++list) {
        scores[static_cast<size_t>(list)] = method_.Score(
            {prompt, static_cast<int32_t>(list / cache.num_kv_heads), static_cast<int32_t>(list % cache.num_kv_heads)},
            values_);
      }
    });
    if (!status.ok()) return status;
    try {
      const int64_t uniform = std::clamp<int64_t>(UniformBudget(values_, cache.seq_k), 1, cache.seq_k);
      const int64_t budget = std::clamp<int64_t>(method_.Budget(uniform, prompt, values_), 1, cache.seq_k);
      for (int32_t sequence = 0; sequence < cache.batch; ++sequence) {
        const size_t first = static_cast<size_t>(sequence) * static_cast<size_t>(cache.num_kv_heads);
        const std::span<std::vector<float>> of_sequence(scores.data() + first, static_cast<size_t>(cache.num_kv_heads));
        method_.Join(values_, of_sequence);
        std::vector<std::vector<int32_t>> kept = Keep(of_sequence, budget, values_);
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
  return {
      {.name = "compression_ratio",
       .type = ParameterType::kReal,
       .default_value = 0.5,
       .maximum = 1,
       .step = 0.05,
       .help = "share of the prompt's tokens that is evicted, where budget is 0",
       .cost = "less to read, and more lost"},
      {.name = "budget",
       .default_value = 0,
       .minimum = 0,
       .maximum = 1 << 20,
       .step = 64,
       .unit = Unit::kTokens,
       .help = "tokens of the prompt that are kept (0: by compression_ratio)",
       .cost = "one more key and value to read per token"},
      {.name = "allocation",
       .type = ParameterType::kChoice,
       .help = "every KV head keeps as many, or the layer's best wherever they are (AdaKV)",
       .cost = "nothing: the layer keeps as many",
       .choices = {"uniform", "ada"}},
      {.name = "ada_floor",
       .type = ParameterType::kReal,
       .default_value = 0.2,
       .step = 0.05,
       .unit = Unit::kShareOfParameter,
       .share_of = "budget",
       .help = "of AdaKV: what every KV head keeps in any case",
       .cost = "budgets are more alike"},
  };
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
    std::vector<int32_t>& seen = tokens.emplace_back();
    for (const int32_t token : list) {
      if (token >= step.first_token) seen.push_back(token - step.first_token);
    }
    total += static_cast<int64_t>(seen.size());
  }
  DecodeSelection selection = SelectionOfLists(step.problem, tokens);
  selection.elements_moved =
      (total / static_cast<int64_t>(kept.size()) + 1) * (step.problem.head_dim + step.problem.ValueDim());
  return selection;
}

}  // namespace headscope::kernels::internal
