// SPDX-License-Identifier: Apache-2.0
// What the prompt's last queries attend to: SnapKV's score, and that of the methods that build on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "prompt_eviction.h"

namespace headscope::kernels::internal {

// `window`, `kernel` and `pooling`.
std::vector<ParameterSpec> WindowVoteParameters();

// Keeps what these votes say: the mean over the last `window` queries and the group of their causal softmax over all
// keys, the model's own where its LSE is known; of the tokens before the window smoothed over `kernel` neighbours
// (zeros beyond the ends); the window's own tokens are kept in any case.
class WindowVotesEvictor : public PromptEvictor {
 public:
  using PromptEvictor::PromptEvictor;
  int32_t PromptRows(const ParameterValues& values) const override { return values.Integer("window"); }
  std::string ForcedBy() const override { return "window"; }
  std::vector<float> Score(const PromptHead& head, const ParameterValues& values) const override;
};

// What a device needs that does the same and keeps the best `kept`.
PromptVotes WindowVotesOnDevice(const ParameterValues& values, int32_t kept);

}  // namespace headscope::kernels::internal
