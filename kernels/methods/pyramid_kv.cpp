// SPDX-License-Identifier: Apache-2.0
// PyramidKV: SnapKV's score, with budgets that fall from the first layer to the last.
//
// Source: PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information Funneling, section 4, and its released
// code: behind the window, which every layer keeps, an arithmetic sequence of budgets whose mean is the common one. The
// last layer's is the common one by beta, the first's twice the common one less that; where the first exceeds what
// there is, the surplus goes to the last. Whole numbers, rounded down. A prompt that does not hold twice the common
// budget has it in every layer. How many layers there are the trace or the running model says; where neither does,
// every layer has the common budget.
#include <algorithm>

#include "prompt_eviction.h"
#include "registry.h"
#include "window_votes.h"

namespace headscope::kernels {
namespace {

MethodSpec PyramidKvSpec() {
  std::vector<ParameterSpec> own = internal::WindowVoteParameters();
  own.push_back({.name = "beta",
                 .default_value = 20,
                 .minimum = 1,
                 .maximum = 1000,
                 .step = 1,
                 .help = "mean budget over the last layer's budget",
                 .cost = "first layers keep more, last ones less"});
  own.push_back({.name = "num_layers",
                 .default_value = 0,
                 .minimum = 0,
                 .maximum = 4096,
                 .step = 1,
                 .help = "layers over which budgets fall (0: the model's)",
                 .cost = "nothing"});
  own = internal::WithEvictionParameters(std::move(own));
  // Rounding over the layers may give a layer less of a larger budget.
  for (ParameterSpec& parameter : own) {
    if (parameter.role == ParameterRole::kBudget) parameter.role = ParameterRole::kAmount;
  }
  return {
      .name = "pyramid-kv",
      .title = "PyramidKV",
      .family = "cache eviction",
      .paper = "PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information Funneling, section 4",
      .summary = "SnapKV's selection, with budgets that fall from layer to layer.",
      .always_keeps = "the last window tokens of the prompt, and all behind it",
      .selection_cost = "exact scores of window queries, 2 window S d FLOPs a query head, once for the prompt",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .kvpress = {{.name = "pyramidkv", .given = {"compression_ratio", "budget", "num_layers"}}},
      .parameters = std::move(own),
  };
}

class PyramidKvMethod final : public internal::WindowVotesEvictor {
 public:
  PyramidKvMethod() : WindowVotesEvictor(PyramidKvSpec()) {}
  int64_t Budget(int64_t uniform, const DecodePrompt& prompt, const ParameterValues& values) const override {
    const int64_t window = std::min(values.Integer("window"), prompt.cache.seq_k);
    const int64_t beyond = prompt.cache.seq_k - window, common = uniform - window;
    const int32_t given = values.Integer("num_layers"), layers = given > 0 ? given : prompt.num_layers;
    if (beyond + window < 2 * common || layers <= 1) return uniform;
    int64_t least = common / values.Integer("beta");
    int64_t largest = 2 * common - least;
    if (largest >= beyond) {
      largest = beyond;
      least = 2 * common - largest;
    }
    const int64_t step = (largest - least) / (layers - 1);
    return window + largest - std::min(prompt.layer, layers - 1) * step;
  }
};

}  // namespace

const DecodeMethod& PyramidKv() {
  static const PyramidKvMethod method;
  return method;
}

}  // namespace headscope::kernels
