// SPDX-License-Identifier: Apache-2.0
// SnapKV: the prompt's last queries vote for what stays.
//
// Source: SnapKV: LLM Knows What You are Looking for Before Generation, section 4 and Listing 1: the attention of the
// last `window` queries, summed, smoothed by pooling, the best tokens of each head and the window itself. Over grouped
// queries votes are averaged within the group, as the kvpress library does; the released code repeats keys instead and
// gives every query head a cache of its own.
#include "prompt_eviction.h"
#include "registry.h"
#include "window_votes.h"

namespace headscope::kernels {
namespace {

MethodSpec SnapKvSpec() {
  return {
      .name = "snap-kv",
      .title = "SnapKV",
      .family = "cache eviction",
      .paper = "SnapKV: LLM Knows What You are Looking for Before Generation, section 4",
      .summary = "Evicts the prompt's tokens that its last queries attend to least.",
      .always_keeps = "the last window tokens of the prompt, and all behind it",
      .selection_cost = "exact scores of window queries, 2 window S d FLOPs a query head, once for the prompt",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .kvpress = {{.name = "snapkv"},
                  {.name = "adakv_snapkv", .values = "allocation=kvpress"},
                  {.name = "critical_snapkv", .values = "critical=1"},
                  {.name = "critical_adakv_snapkv", .values = "critical=1,allocation=kvpress"}},
      .parameters = internal::WithEvictionParameters(internal::WindowVoteParameters()),
  };
}

class SnapKvMethod final : public internal::WindowVotesEvictor {
 public:
  SnapKvMethod() : WindowVotesEvictor(SnapKvSpec()) {}
  std::optional<PromptVotes> Votes(const ParameterValues& values, int32_t kept) const override {
    return internal::WindowVotesOnDevice(values, kept);
  }
};

}  // namespace

const DecodeMethod& SnapKv() {
  static const SnapKvMethod method;
  return method;
}

}  // namespace headscope::kernels
