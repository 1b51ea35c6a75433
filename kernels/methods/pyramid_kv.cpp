// SPDX-License-Identifier: Apache-2.0
// PyramidKV: SnapKV's score, with budgets that fall from the first layer to the last.
//
// Source: PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information Funneling, section 4: an arithmetic
// sequence of budgets whose mean is the common one, the last layer's being the common one by beta. As the kvpress
// library counts it: behind the window, the least is budget / beta and the largest twice the budget less that; where
// the largest exceeds what there is, the surplus goes to the least; where the order of both and the window does not
// hold, every layer has the common budget. A trace does not say how many layers its model has: `num_layers` does.
#include <algorithm>
#include <cmath>

#include "prompt_eviction.h"
#include "registry.h"
#include "window_votes.h"

namespace headscope::kernels {
namespace {

MethodSpec MakeSpec() {
  std::vector<ParameterSpec> own = internal::WindowVoteParameters();
  own.push_back({.name = "beta",
                 .default_value = 20,
                 .minimum = 1,
                 .maximum = 1000,
                 .step = 1,
                 .help = "the common budget by that of the last layer",
                 .cost = "first layers keep more, last ones less"});
  own.push_back({.name = "num_layers",
                 .default_value = 32,
                 .minimum = 1,
                 .maximum = 4096,
                 .step = 1,
                 .help = "layers of the model, over which budgets fall",
                 .cost = "nothing"});
  return {
      .name = "pyramid-kv",
      .title = "PyramidKV",
      .family = "cache eviction",
      .paper = "PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information Funneling, section 4",
      .summary = "SnapKV's choice, with budgets that fall from layer to layer.",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .parameters = internal::WithEvictionParameters(std::move(own)),
  };
}

class PyramidKvMethod final : public internal::PromptEvictor {
 public:
  PyramidKvMethod() : PromptEvictor(MakeSpec()) {}
  int32_t PromptRows(const ParameterValues& values) const override { return values.Integer("window"); }
  std::vector<float> Score(const internal::PromptHead& head, const ParameterValues& values) const override {
    return internal::WindowVotes(head, values);
  }
  int64_t Budget(int64_t uniform, const DecodePrompt& prompt, const ParameterValues& values) const override {
    const int64_t window = values.Integer("window"), beyond = prompt.cache.seq_k - window;
    double least = static_cast<double>(uniform) / values.Integer("beta");
    double largest = 2 * static_cast<double>(uniform) - least;
    if (largest > static_cast<double>(beyond)) {
      largest = static_cast<double>(beyond);
      least = 2 * static_cast<double>(uniform) - largest;
    }
    const bool ordered =
        static_cast<double>(prompt.cache.seq_k) >= largest && largest >= least && least >= static_cast<double>(window);
    const int32_t layers = values.Integer("num_layers");
    if (!ordered || layers == 1) return uniform;
    const int32_t layer = std::min(prompt.layer, layers - 1);
    return std::llround(largest - (largest - least) * layer / (layers - 1));
  }
};

}  // namespace

const DecodeMethod& PyramidKv() {
  static const PyramidKvMethod method;
  return method;
}

}  // namespace headscope::kernels
