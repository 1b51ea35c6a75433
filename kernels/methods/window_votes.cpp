// SPDX-License-Identifier: Apache-2.0
#include "window_votes.h"

#include <algorithm>
#include <limits>

#include "line_sums.h"

namespace headscope::kernels::internal {
namespace {

enum class Pooling : uint8_t { kMean, kMaximum };

}  // namespace

std::vector<ParameterSpec> WindowVoteParameters() {
  return {
      {.name = "window",
       .default_value = 64,
       .minimum = 1,
       .maximum = 1 << 16,
       .step = 16,
       .logarithmic = true,
       .unit = Unit::kTokens,
       .help = "last queries of the prompt that vote; their own tokens stay",
       .cost = "takes places from older tokens"},
      {.name = "kernel",
       .default_value = 5,
       .minimum = 1,
       .maximum = 1025,
       .step = 2,
       .unit = Unit::kTokens,
       .help = "neighbours over which votes are smoothed (1: none)",
       .cost = "keeps runs of tokens rather than single ones"},
      {.name = "pooling",
       .type = ParameterType::kChoice,
       .help = "how votes are smoothed",
       .cost = "nothing",
       .choices = {"mean", "max"}},
  };
}

std::vector<float> WindowVotesEvictor::Score(const PromptHead& head, const ParameterValues& values) const {
  const AttentionProblem& cache = head.prompt.cache;
  const int32_t rows = std::min(values.Integer("window"), cache.seq_k), kernel = values.Integer("kernel");
  const int32_t before = cache.seq_k - rows, group = cache.GroupSize();
  const PackedKeys keys = PackVisibleKeys(cache, head.sequence, head.kv_head);
  LineProbe probe(cache, {});
  LineSums sums;
  std::vector<float> votes(static_cast<size_t>(before), 0.0f);
  for (int32_t i = 0; i < group; ++i) {
    const int32_t qo_head = head.kv_head * group + i;
    probe.SumColumns(keys, head.sequence, qo_head, cache.seq_q - rows, cache.seq_q, head.Lse(qo_head), &sums);
    for (size_t token = 0; token < votes.size(); ++token)
      votes[token] += sums.columns[token] / static_cast<float>(rows * group);
  }
  std::vector<float> scores(static_cast<size_t>(cache.seq_k), std::numeric_limits<float>::infinity());
  const bool maximum = values.Choice<Pooling>("pooling") == Pooling::kMaximum;
  for (int32_t token = 0; token < before; ++token) {
    float pooled = 0;
    const int32_t begin = std::max(0, token - kernel / 2), end = std::min(before, token - kernel / 2 + kernel);
    for (int32_t near = begin; near < end; ++near) {
      const float vote = votes[static_cast<size_t>(near)];
      pooled = maximum ? std::max(pooled, vote) : pooled + vote / static_cast<float>(kernel);
    }
    scores[static_cast<size_t>(token)] = pooled;
  }
  return scores;
}

PromptVotes WindowVotesOnDevice(const ParameterValues& values, int32_t kept) {
  return {.window = values.Integer("window"),
          .kernel = values.Integer("kernel"),
          .maximum = values.Choice<Pooling>("pooling") == Pooling::kMaximum,
          .kept = kept};
}

}  // namespace headscope::kernels::internal
