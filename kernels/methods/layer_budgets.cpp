// SPDX-License-Identifier: Apache-2.0
#include "layer_budgets.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "top_k.h"

namespace headscope::kernels::internal {
namespace {

constexpr char kAllocation[] = "allocation", kAdaFloor[] = "ada_floor", kCritical[] = "critical";

enum class Allocation : uint8_t { kUniform, kAda, kKvpress };

// What the KV heads of a sequence keep.
class LayerChoice {
 public:
  // Scores of every head, [tokens] each; `together` tokens of a chunk stay or go by their mean.
  // `norms`: of the tokens' values behind the output projection, for CriticalKV's second half; empty: without it.
  // `unit`: as KeptByHeads has it.
  LayerChoice(const std::vector<std::vector<float>>& scores, const std::vector<std::vector<float>>& norms,
              int32_t together, float unit)
      : scores_(scores), norms_(norms), together_(together), unit_(unit) {
    for (const std::vector<float>& of_head : scores) {
      std::vector<Chunk>& chunks = chunks_.emplace_back();
      for (int32_t token = 0; token < static_cast<int32_t>(of_head.size()); ++token) {
        if (StaysInAnyCase(of_head[static_cast<size_t>(token)])) continue;
        if (!chunks.empty() && chunks.back().end == token && token / together == chunks.back().begin / together) {
          chunks.back().end = token + 1;
        } else {
          chunks.push_back({token, token + 1});
        }
      }
      std::vector<float>& ranked = chunk_scores_.emplace_back();
      for (const Chunk& chunk : chunks) {
        double sum = 0;
        for (int32_t token = chunk.begin; token < chunk.end; ++token)
          sum += static_cast<double>(of_head[static_cast<size_t>(token)]);
        ranked.push_back(static_cast<float>(sum / (chunk.end - chunk.begin)));
      }
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
      weighed[number] = (weighed[number] + kEpsilon * unit_) * norm;
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

  int64_t NumForced(size_t head) const {
    return std::count_if(scores_[head].begin(), scores_[head].end(), StaysInAnyCase);
  }

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
    for (size_t token = 0; token < kept.size(); ++token) kept[token] = StaysInAnyCase(scores_[head][token]);
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
  const float unit_;
  std::vector<std::vector<Chunk>> chunks_;        // [head], of the tokens that are not kept in any case
  std::vector<std::vector<float>> chunk_scores_;  // [head][chunk]
};

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

}  // namespace

bool StaysInAnyCase(float score) {
  return score == std::numeric_limits<float>::infinity();
}

ParameterSpec CriticalParameter() {
  return {.name = kCritical,
          .type = ParameterType::kFlag,
          .help = "half of a head's budget by the score times the norm of W_o v (CriticalKV), which a trace may hold",
          .cost = "one number per query head and token to read, once"};
}

std::vector<ParameterSpec> HeadBudgetParameters(const std::string& budget) {
  return {
      {.name = kAllocation,
       .type = ParameterType::kChoice,
       .maximum = 2,
       .help = "every KV head keeps the same number, or a number by its part in the layer's best (AdaKV, or the "
               "kvpress library's form)",
       .cost = "nothing: the layer keeps as many",
       .choices = {"uniform", "ada", "kvpress"}},
      {.name = kAdaFloor,
       .type = ParameterType::kReal,
       .default_value = 0.2,
       .step = 0.05,
       .unit = Unit::kShareOfParameter,
       .share_of = budget,
       .help = "AdaKV: the share that is spread evenly (ada), or that every head keeps by its own ranking",
       .cost = "budgets are more alike"},
      CriticalParameter(),
  };
}

bool KeepsByScoresAlone(const ParameterValues& values) {
  return values.Integer(kAllocation) == 0 && !values.Flag(kCritical);
}

bool SharesBudgetOfLayer(const ParameterValues& values) {
  return values.values().contains(kAllocation) && values.Choice<Allocation>(kAllocation) != Allocation::kUniform;
}

bool AsksForValueNorms(const ParameterValues& values) {
  return values.Flag(kCritical);
}

Status CheckValueNorms(const MethodSpec& spec, const DecodePrompt& prompt, const ParameterValues& values) {
  if (!values.Flag(kCritical) || prompt.value_norms != nullptr) return {};
  return {StatusCode::kUnsupported,
          spec.name +
              " with critical weighs tokens by the norms of their values behind the output projection, which are "
              "missing: capture with value-norms-l1 recorded, or leave critical off"};
}

std::vector<std::vector<float>> NormsByHeads(const DecodePrompt& prompt, int32_t sequence,
                                             const ParameterValues& values) {
  std::vector<std::vector<float>> norms;
  for (int32_t kv_head = 0; kv_head < prompt.cache.num_kv_heads && values.Flag(kCritical); ++kv_head)
    norms.push_back(MeanNorms(prompt, sequence, kv_head));
  return norms;
}

std::vector<std::vector<int32_t>> KeptByHeads(const std::vector<std::vector<float>>& scores,
                                              const std::vector<std::vector<float>>& norms, int64_t budget,
                                              int32_t together, const ParameterValues& values, float unit) {
  const LayerChoice choice(scores, norms, together, unit);
  const int64_t forced = choice.NumForced(0);
  const auto num_tokens = static_cast<int64_t>(scores.front().size());
  // A budget of everything keeps the ragged chunk at the end as well.
  const int64_t count = budget >= num_tokens ? num_tokens : (budget - forced) / together;
  const auto num_heads = static_cast<int64_t>(scores.size());
  const auto& named = values.values();
  // A method whose score has nothing to spread has no such parameter.
  const Allocation allocation =
      named.contains(kAllocation) ? values.Choice<Allocation>(kAllocation) : Allocation::kUniform;
  const double floor = allocation == Allocation::kUniform ? 0 : values.Real(kAdaFloor);
  std::vector<std::vector<int32_t>> kept;
  switch (allocation) {
    case Allocation::kUniform:
      for (size_t head = 0; head < scores.size(); ++head) kept.push_back(choice.Keep(head, count));
      break;
    case Allocation::kAda: {
      const std::vector<int64_t> shares = choice.SharesOfBest(count * num_heads);
      const double even = std::floor(static_cast<double>(count) * floor);
      for (size_t head = 0; head < scores.size(); ++head) {
        const double blended = static_cast<double>(shares[head]) * (1 - floor) + even;
        kept.push_back(choice.Keep(head, static_cast<int64_t>(std::nearbyint(blended))));
      }
      break;
    }
    case Allocation::kKvpress: {
      const auto own = static_cast<int64_t>(floor * static_cast<double>(budget)) - forced;
      kept = choice.KeepBest(std::max<int64_t>(own, 0) / together, count * num_heads);
      break;
    }
  }
  return kept;
}

}  // namespace headscope::kernels::internal
