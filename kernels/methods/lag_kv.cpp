// SPDX-License-Identifier: Apache-2.0
// LagKV: tokens that stand out against the next partition of the cache stay.
//
// Source: LagKV: Lag-Relative Information of the KV Cache Tells Which Tokens Are Important, section 3: behind the sinks
// the cache is cut into partitions of `lag` tokens; keys and values of one are scaled, component by component, by the
// least and the largest of the next one; a token's score is the softmax over its partition of the standard deviation
// over components, for keys and for values, and their mean. Sinks, the last partition and what is left over stay.
//
// As in the released code and the kvpress library, ranks inside a partition are what competes for the budget (every
// partition so keeps a like share); `ranks` 0 compares the scores themselves. A prompt of less than the sinks and two
// partitions is not judged: its sinks and its newest tokens stay.
#include <algorithm>
#include <cmath>
#include <limits>

#include "internal/element.h"
#include "prompt_eviction.h"
#include "registry.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

constexpr float kAlways = std::numeric_limits<float>::infinity();

MethodSpec LagKvSpec() {
  return {
      .name = "lag-kv",
      .title = "LagKV",
      .family = "cache eviction",
      .paper = "LagKV: Lag-Relative Information of the KV Cache Tells Which Tokens Are Important, section 3",
      .summary = "Evicts the prompt's tokens that resemble those of the next partition.",
      .always_keeps =
          "the first n_sink tokens, the last partition of lag tokens with what fills none, and all behind the prompt",
      .selection_cost = "ranges and deviations of the prompt's keys and values, 2 S (d + d_v) elements a KV head, once",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .reads_v = true,
      .kvpress = {{.name = "lagkv"}},
      .parameters = internal::WithEvictionParameters({
          {.name = "lag",
           .default_value = 128,
           .minimum = 2,
           .maximum = 1 << 16,
           .step = 16,
           .logarithmic = true,
           .unit = Unit::kTokens,
           .help = "tokens of a partition",
           .cost = "the newest partition, which is never evicted, is longer"},
          internal::SinksThatStay(),
          {.name = "ranks",
           .type = ParameterType::kFlag,
           .default_value = 1,
           .help = "compare ranks inside a partition, not scores",
           .cost = "every partition keeps the same share, whatever it holds"},
      }),
  };
}

// The softmax over a partition of the tokens' standard deviation, after scaling by the next partition. row(token) gives
// components.
template <typename Row>
void AddPartitionScores(int32_t begin, int32_t lag, size_t width, const Row& row, std::vector<float>* scores) {
  std::vector<double> least(width, std::numeric_limits<double>::infinity()), largest(width, -least.front());
  for (int32_t token = begin + lag; token < begin + 2 * lag; ++token) {
    const float* const values = row(token);
    for (size_t d = 0; d < width; ++d) {
      least[d] = std::min(least[d], static_cast<double>(values[d]));
      largest[d] = std::max(largest[d], static_cast<double>(values[d]));
    }
  }
  std::vector<double> deviations;
  for (int32_t token = begin; token < begin + lag; ++token) {
    const float* const values = row(token);
    double sum = 0, squares = 0;
    for (size_t d = 0; d < width; ++d) {
      const double range = largest[d] - least[d];
      const double x = range > 0 ? (static_cast<double>(values[d]) - least[d]) / range : 0.0;
      sum += x;
      squares += x * x;
    }
    const auto n = static_cast<double>(width);
    deviations.push_back(std::sqrt(std::max(0.0, (squares - sum * sum / n) / std::max(n - 1, 1.0))));
  }
  const double top = *std::max_element(deviations.begin(), deviations.end());
  double total = 0;
  for (const double x : deviations) total += std::exp(x - top);
  for (int32_t i = 0; i < lag; ++i) {
    (*scores)[static_cast<size_t>(int64_t{begin} + i)] +=
        static_cast<float>(std::exp(deviations[static_cast<size_t>(i)] - top) / total / 2);
  }
}

class LagKvMethod final : public internal::PromptEvictor {
 public:
  LagKvMethod() : PromptEvictor(LagKvSpec()) {}

  std::string ForcedBy() const override { return "n_sink and lag"; }
  std::vector<float> Score(const internal::PromptHead& head, const ParameterValues& values) const override {
    const AttentionProblem& cache = head.prompt.cache;
    const int32_t lag = values.Integer("lag"), num_tokens = head.NumTokens();
    const int32_t sinks = std::min(values.Integer("n_sink"), num_tokens);
    std::vector<float> scores(static_cast<size_t>(num_tokens), 0.0f);
    std::fill_n(scores.begin(), sinks, kAlways);
    const int32_t num_partitions = (num_tokens - sinks) / lag;
    if (num_partitions < 2) {
      for (int32_t token = sinks; token < num_tokens; ++token)
        scores[static_cast<size_t>(token)] = static_cast<float>(token);
      return scores;
    }
    std::vector<float> key(static_cast<size_t>(cache.head_dim)), value(static_cast<size_t>(cache.ValueDim()));
    const auto key_row = [&](int32_t token) {
      internal::LoadRow(cache.k.data, cache.dtype, head.KeyOffset(token), cache.head_dim, key.data());
      return key.data();
    };
    const auto value_row = [&](int32_t token) {
      internal::LoadRow(cache.v.data, cache.dtype, head.ValueOffset(token), cache.ValueDim(), value.data());
      return value.data();
    };
    const int32_t judged_end = sinks + (num_partitions - 1) * lag;
    for (int32_t begin = sinks; begin < judged_end; begin += lag) {
      AddPartitionScores(begin, lag, key.size(), key_row, &scores);
      AddPartitionScores(begin, lag, value.size(), value_row, &scores);
      if (values.Flag("ranks")) ToRanks({scores.data() + begin, static_cast<size_t>(lag)});
    }
    std::fill(scores.begin() + judged_end, scores.end(), kAlways);
    return scores;
  }

 private:
  // The best gets the largest.
  static void ToRanks(std::span<float> scores) {
    const std::vector<int32_t> ranking = internal::Ranking(scores);
    for (size_t rank = 0; rank < ranking.size(); ++rank)
      scores[static_cast<size_t>(ranking[rank])] = static_cast<float>(ranking.size() - rank);
  }
};

}  // namespace

const DecodeMethod& LagKv() {
  static const LagKvMethod method;
  return method;
}

}  // namespace headscope::kernels
