// SPDX-License-Identifier: Apache-2.0
// ChunkKV: SnapKV's score, for whole chunks of neighbouring tokens.
//
// Source: ChunkKV: Semantic-Preserving KV Cache Compression for Efficient Long-Context LLM Inference, section 3 and
// Algorithm 1: the last queries' attention, summed over chunks of `chunk` tokens (10 in the paper, 20 in the kvpress
// library); behind the window, the budget's whole chunks, the best of them, stay.
#include <algorithm>

#include "prompt_eviction.h"
#include "registry.h"
#include "window_votes.h"

namespace headscope::kernels {
namespace {

MethodSpec ChunkKvSpec() {
  std::vector<ParameterSpec> own = internal::WindowVoteParameters();
  own.push_back({.name = "chunk",
                 .default_value = 10,
                 .minimum = 1,
                 .maximum = 1 << 16,
                 .step = 1,
                 .unit = Unit::kTokens,
                 .help = "neighbouring tokens that are kept or evicted together",
                 .cost = "keeps tokens that got no votes"});
  own[1].default_value = 1;  // chunks are the smoothing
  return {
      .name = "chunk-kv",
      .title = "ChunkKV",
      .family = "cache eviction",
      .paper = "ChunkKV: Semantic-Preserving KV Cache Compression for Efficient Long-Context LLM Inference, section 3",
      .summary = "Evicts the prompt's chunks of tokens that its last queries attend to least.",
      .always_keeps = "the last window tokens of the prompt, and all behind it",
      .selection_cost = "exact scores of window queries, 2 window S d FLOPs a query head, once for the prompt",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .kvpress = {{.name = "chunkkv", .values = "chunk=20,kernel=5"}},
      .parameters = internal::WithEvictionParameters(std::move(own)),
  };
}

class ChunkKvMethod final : public internal::PromptEvictor {
 public:
  ChunkKvMethod() : PromptEvictor(ChunkKvSpec()) {}
  int32_t PromptRows(const ParameterValues& values) const override { return values.Integer("window"); }
  std::string ForcedBy() const override { return "window"; }
  int32_t Together(const ParameterValues& values) const override { return values.Integer("chunk"); }
  // A chunk's mean, so that a shorter last one competes alike. Chunks are counted from the prompt's first token; the
  // window's tokens are in none.
  std::vector<float> Score(const internal::PromptHead& head, const ParameterValues& values) const override {
    std::vector<float> scores = internal::WindowVotes(head, values);
    const auto before = scores.size() - static_cast<size_t>(std::min(values.Integer("window"), head.NumTokens()));
    const auto chunk = static_cast<size_t>(values.Integer("chunk"));
    for (size_t begin = 0; begin < before; begin += chunk) {
      const size_t end = std::min(begin + chunk, before);
      double sum = 0;
      for (size_t token = begin; token < end; ++token) sum += static_cast<double>(scores[token]);
      std::fill(scores.begin() + static_cast<int64_t>(begin), scores.begin() + static_cast<int64_t>(end),
                static_cast<float>(sum / static_cast<double>(end - begin)));
    }
    return scores;
  }
};

}  // namespace

const DecodeMethod& ChunkKv() {
  static const ChunkKvMethod method;
  return method;
}

}  // namespace headscope::kernels
