// SPDX-License-Identifier: Apache-2.0
// KeyDiff: keys that differ from the mean direction stay.
//
// Source: KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM Inference in Resource-Constrained
// Environments, section 3: evicts the keys whose cosine with the mean of all normalised keys is largest. The paper's
// prefill works in blocks, each with what is left of those before; here the whole prompt is judged at once, as the
// kvpress library does: the cache is there when decoding begins.
#include <cmath>

#include "internal/element.h"
#include "prompt_eviction.h"
#include "registry.h"

namespace headscope::kernels {
namespace {

MethodSpec KeyDiffSpec() {
  return {
      .name = "key-diff",
      .title = "KeyDiff",
      .family = "cache eviction",
      .paper =
          "KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM Inference in Resource-Constrained "
          "Environments, section 3",
      .summary = "Evicts the prompt's keys that are most like the mean key.",
      .always_keeps = "the tokens behind the prompt",
      .selection_cost = "the mean of the prompt's keys and their cosines with it, 2 S d elements a KV head, once",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .kvpress = {{.name = "keydiff"}},
      .parameters = internal::EvictionParameters(),
  };
}

class KeyDiffMethod final : public internal::PromptEvictor {
 public:
  KeyDiffMethod() : PromptEvictor(KeyDiffSpec()) {}

  std::vector<float> Score(const internal::PromptHead& head, const ParameterValues&) const override {
    const AttentionProblem& cache = head.prompt.cache;
    const auto width = static_cast<size_t>(cache.head_dim);
    std::vector<float> key(width);
    std::vector<double> mean(width, 0.0);
    const auto unit = [&](int32_t token) {  // 1 / norm
      internal::LoadRow(cache.k.data, cache.dtype, head.KeyOffset(token), cache.head_dim, key.data());
      double square = 0;
      for (const float x : key) square += static_cast<double>(x) * static_cast<double>(x);
      return square > 0 ? 1 / std::sqrt(square) : 0.0;
    };
    for (int32_t token = 0; token < head.NumTokens(); ++token) {
      const double inverse = unit(token);
      for (size_t d = 0; d < width; ++d) mean[d] += static_cast<double>(key[d]) * inverse;
    }
    double square = 0;
    for (const double x : mean) square += x * x;
    const double mean_inverse = square > 0 ? 1 / std::sqrt(square) : 0.0;
    std::vector<float> scores;
    for (int32_t token = 0; token < head.NumTokens(); ++token) {
      const double inverse = unit(token);
      double cosine = 0;
      for (size_t d = 0; d < width; ++d) cosine += static_cast<double>(key[d]) * mean[d];
      scores.push_back(static_cast<float>(-cosine * inverse * mean_inverse));
    }
    return scores;
  }
};

}  // namespace

const DecodeMethod& KeyDiff() {
  static const KeyDiffMethod method;
  return method;
}

}  // namespace headscope::kernels
