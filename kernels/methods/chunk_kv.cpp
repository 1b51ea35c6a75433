// SPDX-License-Identifier: Apache-2.0
// ChunkKV: SnapKV's score, for whole chunks of neighbouring tokens. Any other method that judges the prompt keeps its
// chunks with `chunk`, as the kvpress library's wrapper does.
//
// Source: ChunkKV: Semantic-Preserving KV Cache Compression for Efficient Long-Context LLM Inference, section 3 and
// Algorithm 1: the last queries' attention, summed over chunks of `chunk` tokens (10 in the paper, 20 in the kvpress
// library); behind the window, the budget's whole chunks, the best of them, stay. Chunks are counted from the prompt's
// first token; the window's tokens are in none, and a shorter chunk before it competes by its mean like the others.
#include <algorithm>
#include <utility>
#include <vector>

#include "prompt_eviction.h"
#include "registry.h"
#include "window_votes.h"

namespace headscope::kernels {
namespace {

MethodSpec ChunkKvSpec() {
  std::vector<ParameterSpec> parameters = internal::WithEvictionParameters(internal::WindowVoteParameters());
  parameters[1].default_value = 1;  // chunks are the smoothing
  std::ranges::find(parameters, internal::kChunk, &ParameterSpec::name)->default_value = 10;
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
      .parameters = std::move(parameters),
  };
}

class ChunkKvMethod final : public internal::WindowVotesEvictor {
 public:
  ChunkKvMethod() : WindowVotesEvictor(ChunkKvSpec()) {}
};

}  // namespace

const DecodeMethod& ChunkKv() {
  static const ChunkKvMethod method;
  return method;
}

}  // namespace headscope::kernels
