// SPDX-License-Identifier: Apache-2.0
// Knorm: keys of a small norm stay.
//
// Source: A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression, section 3: attention goes to keys of
// a low L2 norm, so those of a high one are evicted. Norms are those of the cached keys, as in the paper.
#include <cmath>

#include "internal/element.h"
#include "prompt_eviction.h"
#include "registry.h"

namespace headscope::kernels {
namespace {

MethodSpec KnormSpec() {
  return {
      .name = "knorm",
      .title = "Knorm",
      .family = "cache eviction",
      .paper = "A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression, section 3",
      .summary = "Evicts the prompt's keys of the largest norm.",
      .always_keeps = "the tokens behind the prompt",
      .selection_cost = "the norms of the prompt's keys, S d elements a KV head, once",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .kvpress = {{.name = "knorm"}},
      .parameters = internal::EvictionParameters(),
  };
}

class KnormMethod final : public internal::PromptEvictor {
 public:
  KnormMethod() : PromptEvictor(KnormSpec()) {}

  std::vector<float> Score(const internal::PromptHead& head, const ParameterValues&) const override {
    const AttentionProblem& cache = head.prompt.cache;
    std::vector<float> key(static_cast<size_t>(cache.head_dim)), scores;
    for (int32_t token = 0; token < head.NumTokens(); ++token) {
      internal::LoadRow(cache.k.data, cache.dtype, head.KeyOffset(token), cache.head_dim, key.data());
      double square = 0;
      for (const float x : key) square += static_cast<double>(x) * static_cast<double>(x);
      scores.push_back(-static_cast<float>(std::sqrt(square)));
    }
    return scores;
  }
};

}  // namespace

const DecodeMethod& Knorm() {
  static const KnormMethod method;
  return method;
}

}  // namespace headscope::kernels
