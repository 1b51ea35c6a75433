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
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels::internal {
namespace {

enum class Allocation : uint8_t { kUniform, kAda, kKvpress };

int64_t UniformBudget(const ParameterValues& values, int64_t num_tokens) {
  const int64_t budget = values.Integer("budget");
  return std::min(budget > 0 ? budget : TokensLeft(values.Real(kCompressionRatio), num_tokens), num_tokens);
}

bool IsForced(float score) {
  return score == std::numeric_limits<float>::infinity();
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

// What the KV heads of a sequence keep.
class Allocator {
 public:
  // Scores of every head, [tokens] each; `together` tokens of a chunk have one score.
  // `norms`: of the tokens' values behind the output projection, for CriticalKV's second half; empty: without it.
  Allocator(const std::vector<std::vector<float>>& scores, const std::vector<std::vector<float>>& norms,
            int32_t together)
      : scores_(scores), norms_(norms), together_(together) {
    for (const std::vector<float>& of_head : scores) {
      std::vector<Chunk>& chunks = chunks_.emplace_back();
      for (int32_t token = 0; token < static_cast<int32_t>(of_head.size()); ++token) {
        if (IsForced(of_head[static_cast<size_t>(token)])) continue;
        if (!chunks.empty() && chunks.back().end == token && token / together == chunks.back().begin / together) {
          chunks.back().end = token + 1;
        } else {
          chunks.push_back({token, token + 1});
        }
      }
      std::vector<float>& ranked = chunk_scores_.emplace_back();
      for (const Chunk& chunk : chunks) ranked.push_back(of_head[static_cast<size_t>(chunk.begin)]);
    }
  }

  // The first `count` chunks of a head by its own ranking, and what is kept in any case, ascending.
  std::vector<int32_t> Keep(size_t head, int64_t count) const {
    if (norms_.empty()) return TokensOf(head, TopK(chunk_scores_[head], count));
    // CriticalKV: so much of the budget goes by the score alone, the rest by what it adds to the output.
    constexpr double kFirstShare = 0.5;
    constexpr float kEpsilon = 1e-4f;
    const double forced = static_cast<double>(NumForced(head)) / together_;  // in chunks
    const double by_score = kFirstShare * (static_cast<double>(count) + forced) - forced;
    const std::vector<int32_t> first =
        TopK(chunk_scores_[head], std::clamp<int64_t>(static_cast<int64_t>(std::floor(by_score)), 0, count));
    std::vector<float> weighed = chunk_scores_[head];
    for (size_t number = 0; number < weighed.size(); ++number) {
      const Chunk& chunk = chunks_[head][number];
      float norm = 0;
      for (int32_t token = chunk.begin; token < chunk.end; ++token)
        norm += norms_[head][static_cast<size_t>(token)] / static_cast<float>(chunk.end - chunk.begin);
      weighed[number] = (weighed[number] + kEpsilon) * norm;
    }
    for (const int32_t number : first) weighed[static_cast<size_t>(number)] = std::numeric_limits<float>::infinity();
    return TokensOf(head, TopK(weighed, count));
  }

  // How many chunks each head has among the best `total` of all heads.
  std::vector<int64_t> SharesOfBest(int64_t total) const {
    const std::vector<int32_t> owners = Owners();
    std::vector<int64_t> shares(scores_.size(), 0);
    for (const int32_t place : TopK(Joined(), total)) ++shares[static_cast<size_t>(owners[static_cast<size_t>(place)])];
    return shares;
  }

  // The first `own` chunks of every head, then the best of what is left, `total` in all.
  std::vector<std::vector<int32_t>> KeepBest(int64_t own, int64_t total) const {
    std::vector<float> joined = Joined();
    size_t begin = 0;
    for (const std::vector<float>& ranked : chunk_scores_) {
      for (const int32_t chunk : TopK(ranked, own))
        joined[begin + static_cast<size_t>(chunk)] = std::numeric_limits<float>::infinity();
      begin += ranked.size();
    }
    const std::vector<int32_t> owners = Owners();
    std::vector<std::vector<int32_t>> chosen(scores_.size());
    std::vector<int32_t> first(scores_.size(), 0);
    for (size_t head = 1; head < first.size(); ++head)
      first[head] = first[head - 1] + static_cast<int32_t>(chunks_[head - 1].size());
    for (const int32_t place : TopK(joined, total)) {
      const auto head = static_cast<size_t>(owners[static_cast<size_t>(place)]);
      chosen[head].push_back(place - first[head]);
    }
    std::vector<std::vector<int32_t>> kept;
    for (size_t head = 0; head < chosen.size(); ++head)
      kept.push_back(norms_.empty() ? TokensOf(head, chosen[head])
                                    : Keep(head, static_cast<int64_t>(chosen[head].size())));
    return kept;
  }

  int64_t NumForced(size_t head) const { return std::count_if(scores_[head].begin(), scores_[head].end(), IsForced); }

 private:
  struct Chunk {
    int32_t begin, end;
  };

  std::vector<float> Joined() const {
    std::vector<float> joined;
    for (const std::vector<float>& ranked : chunk_scores_) joined.insert(joined.end(), ranked.begin(), ranked.end());
    return joined;
  }
  std::vector<int32_t> Owners() const {
    std::vector<int32_t> owners;
    for (size_t head = 0; head < chunks_.size(); ++head)
      owners.insert(owners.end(), chunks_[head].size(), static_cast<int32_t>(head));
    return owners;
  }
  std::vector<int32_t> TokensOf(size_t head, const std::vector<int32_t>& chosen) const {
    std::vector<bool> kept(scores_[head].size());
    for (size_t token = 0; token < kept.size(); ++token) kept[token] = IsForced(scores_[head][token]);
    for (const int32_t number : chosen) {
      const Chunk& chunk = chunks_[head][static_cast<size_t>(number)];
      std::fill(kept.begin() + chunk.begin, kept.begin() + chunk.end, true);
    }
    std::vector<int32_t> tokens;
    for (size_t token = 0; token < kept.size(); ++token) {
      if (kept[token]) tokens.push_back(static_cast<int32_t>(token));
    }
    return tokens;
  }

  const std::vector<std::vector<float>>&scores_, &norms_;  // [head][token]
  const int32_t together_;
  std::vector<std::vector<Chunk>> chunks_;        // [head], of the tokens that are not kept in any case
  std::vector<std::vector<float>> chunk_scores_;  // [head][chunk]
};

// What each head of a sequence keeps, ascending. `budget` holds what is kept in any case.
std::vector<std::vector<int32_t>> Keep(const std::vector<std::vector<float>>& scores,
                                       const std::vector<std::vector<float>>& norms, int64_t budget, int32_t together,
                                       const ParameterValues& values) {
  const Allocator allocator(scores, norms, together);
  const int64_t forced = allocator.NumForced(0);
  const auto num_tokens = static_cast<int64_t>(scores.front().size());
  // A budget of everything keeps the ragged chunk at the end as well.
  const int64_t count = budget >= num_tokens ? num_tokens : (budget - forced) / together;
  const auto num_heads = static_cast<int64_t>(scores.size());
  const double floor = values.Real("ada_floor");
  std::vector<std::vector<int32_t>> kept;
  switch (values.Choice<Allocation>("allocation")) {
    case Allocation::kUniform:
      for (size_t head = 0; head < scores.size(); ++head) kept.push_back(allocator.Keep(head, count));
      break;
    case Allocation::kAda: {
      const std::vector<int64_t> shares = allocator.SharesOfBest(count * num_heads);
      const double even = std::floor(static_cast<double>(count) * floor);
      for (size_t head = 0; head < scores.size(); ++head) {
        const double blended = static_cast<double>(shares[head]) * (1 - floor) + even;
        kept.push_back(allocator.Keep(head, static_cast<int64_t>(std::nearbyint(blended))));
      }
      break;
    }
    case Allocation::kKvpress: {
      const auto own = static_cast<int64_t>(floor * static_cast<double>(budget)) - forced;
      kept = allocator.KeepBest(std::max<int64_t>(own, 0) / together, count * num_heads);
      break;
    }
  }
  return kept;
}

// Over the query heads of a KV head.
std::vector<float> MeanNorms(const DecodePrompt& prompt, int32_t sequence, int32_t kv_head) {
  const AttentionProblem& cache = prompt.cache;
  std::vector<float> mean(static_cast<size_t>(cache.seq_k), 0.0f);
  for (int32_t i = 0; i < cache.GroupSize(); ++i) {
    const int64_t head = int64_t{kv_head} * cache.GroupSize() + i;
    const float* const norms =
        prompt.value_norms + sequence * prompt.value_norms_batch_stride + head * prompt.value_norms_head_stride;
    for (size_t token = 0; token < mean.size(); ++token)
      mean[token] += norms[token] / static_cast<float>(cache.GroupSize());
  }
  return mean;
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
    if (values_.Flag("critical") && prompt.value_norms == nullptr) {
      return {StatusCode::kUnsupported,
              method_.spec().name +
                  " with critical weighs tokens by the norms of their values behind the "
                  "output projection, which are missing: capture with value-norms recorded, or leave critical off"};
    }
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
    const int64_t forced = std::count_if(scores.front().begin(), scores.front().end(), IsForced);
    if (forced > uniform && forced < cache.seq_k) return RefuseBudget(method_, values_, uniform, forced, cache.seq_k);
    try {
      // A prompt of nothing but what is kept in any case stays as it is.
      const int64_t budget = std::clamp<int64_t>(method_.Budget(uniform, prompt, values_), forced, cache.seq_k);
      for (int32_t sequence = 0; sequence < cache.batch; ++sequence) {
        const size_t first = static_cast<size_t>(sequence) * static_cast<size_t>(cache.num_kv_heads);
        const std::vector<std::vector<float>> of_sequence(
            scores.begin() + static_cast<int64_t>(first),
            scores.begin() + static_cast<int64_t>(first) + cache.num_kv_heads);
        std::vector<std::vector<float>> norms;
        for (int32_t kv_head = 0; kv_head < cache.num_kv_heads && values_.Flag("critical"); ++kv_head)
          norms.push_back(MeanNorms(prompt, sequence, kv_head));
        std::vector<std::vector<int32_t>> kept = Keep(of_sequence, norms, budget, method_.Together(values_), values_);
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
      {.name = "allocation",
       .type = ParameterType::kChoice,
       .maximum = 2,
       .help = "every KV head keeps the same number, or a number by its part in the layer's best (AdaKV, or the "
               "kvpress library's form)",
       .cost = "nothing: the layer keeps as many",
       .choices = {"uniform", "ada", "kvpress"}},
      {.name = "ada_floor",
       .type = ParameterType::kReal,
       .default_value = 0.2,
       .step = 0.05,
       .unit = Unit::kShareOfParameter,
       .share_of = "budget",
       .help = "AdaKV: the share that is spread evenly (ada), or that every head keeps by its own ranking",
       .cost = "budgets are more alike"},
      {.name = "critical",
       .type = ParameterType::kFlag,
       .help = "half of a head's budget by the score times the norm of W_o v (CriticalKV), which a trace may hold",
       .cost = "one number per query head and token to read, once"},
  };
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
  // As many tokens for every KV head, by their scores alone.
  if (values.Integer("allocation") != 0 || values.Flag("critical")) return {};
  const auto budget = static_cast<int32_t>(internal::UniformBudget(values, num_tokens));
  std::optional<PromptVotes> votes = evictor->Votes(values, budget);
  if (!votes) return {};
  const int32_t forced = std::min(votes->window, num_tokens);
  if (forced > budget && forced < num_tokens) return {};
  votes->kept = std::max(budget, forced);
  return votes;
}

}  // namespace headscope::kernels
