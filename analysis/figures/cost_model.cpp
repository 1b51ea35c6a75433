// SPDX-License-Identifier: Apache-2.0
// What a decode step moves and computes: memory of the KV cache by length, and arithmetic intensity beside what this
// machine does (SparQ Attention, section 2 and appendix C).
#include <algorithm>
#include <array>

#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/machine.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

constexpr std::array<double, 8> kLengths = {1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

// Tokens that a layer's newest row sees after that many.
double SeenTokens(const data::LayerFacts& facts, double tokens) {
  return facts.window > 0  ? std::min<double>(tokens, facts.window)
         : facts.chunk > 0 ? std::min<double>(tokens, facts.chunk)
                           : tokens;
}

// Elements of K and V of one layer after that many tokens.
double CacheElements(const data::LayerFacts& facts, double tokens) {
  if (facts.kv_layer >= 0) return 0;  // reads another layer's
  return SeenTokens(facts, tokens) * facts.num_kv_heads * (facts.head_dim + (facts.v_is_k ? 0 : facts.v_head_dim));
}

std::vector<FigurePanel> MakeMemory(const FigureInput& input, std::string* caption) {
  FigurePanel total, marginal;
  total.title = "KV cache of the recorded layers, 2 bytes per element";
  total.x = marginal.x = {"tokens", true, 0, 0};
  total.y = {"MiB", true, 0, 0};
  marginal.title = "bytes per token";
  marginal.y.title = "KV cache / tokens, bytes";
  for (const FigureTrace& trace : input.traces) {
    FigureSeries keys_values{trace.name, {}, {}}, second_copy{trace.name + ", K twice (SparQ)", {}, {}};
    FigureSeries each = keys_values;
    for (const double tokens : kLengths) {
      double elements = 0, of_keys = 0;
      for (size_t layer = 0; layer < trace.trace->layout().layers.size(); ++layer) {
        const data::LayerFacts& facts = trace.trace->layout().facts[layer];
        const double of_layer = CacheElements(facts, tokens);
        elements += of_layer;
        of_keys += of_layer * facts.head_dim / (facts.head_dim + (facts.v_is_k ? 0 : facts.v_head_dim));
      }
      for (FigureSeries* series : {&keys_values, &second_copy, &each}) series->x.push_back(tokens);
      keys_values.y.push_back(2 * elements / (1024 * 1024));
      second_copy.y.push_back(2 * (elements + of_keys) / (1024 * 1024));
      each.y.push_back(2 * elements / tokens);
    }
    total.series.push_back(std::move(keys_values));
    total.series.push_back(std::move(second_copy));
    marginal.series.push_back(std::move(each));
  }
  *caption =
      "By the layers' KV heads, head sizes, windows and shared caches. SparQ, appendix F: the second copy of K takes "
      "half as much again.";
  return {std::move(total), std::move(marginal)};
}

// A decode step of a batch, in units of two multiply-adds and two elements of one sequence.
struct StepCost {
  double multiply_adds = 0, weights = 0, cache = 0;  // weights, cache: elements moved
};

// SparQ's model of a layer, d_m^2 (6 + rho g) multiply-adds and d_m^2 (6 / B + rho) elements with rho = S / (g d_m),
// summed over the recorded layers by their own shapes; where all are alike, the sum's ratios are one layer's.
StepCost CostOf(const data::TraceLayout& layout, double tokens, double batch) {
  StepCost cost;
  for (const data::LayerFacts& facts : layout.facts) {
    const double head_dim = (facts.head_dim + facts.v_head_dim) / 2.0;
    const double model_dim = facts.num_qo_heads * head_dim, seen = SeenTokens(facts, tokens);
    cost.multiply_adds += 6 * model_dim * model_dim + seen * model_dim;
    cost.weights += 6 * model_dim * model_dim / batch;
    cost.cache += seen * facts.num_kv_heads * head_dim;
  }
  return cost;
}

std::vector<FigurePanel> MakeIntensity(const FigureInput& input, std::string* caption) {
  const Machine machine = MeasureMachine();
  const double ratio = machine.multiply_adds / machine.elements;
  FigurePanel intensity, share;
  intensity.title = "arithmetic intensity of a decode step";
  intensity.x = share.x = {"tokens", true, 0, 0};
  intensity.y = {"multiply-adds per element moved", true, 0, 0};
  share.title = "attention's part of what is moved";
  share.y = {"share", false, 0, 1};
  for (const FigureTrace& trace : input.traces) {
    for (const double batch : {1.0, 8.0, 64.0}) {
      FigureSeries series{(input.traces.size() > 1 ? trace.name + ", " : "") + "batch " + Digits(batch, 0), {}, {}};
      FigureSeries of_attention = series;
      for (const double tokens : kLengths) {
        const StepCost cost = CostOf(trace.trace->layout(), tokens, batch);
        series.x.push_back(tokens);
        series.y.push_back(cost.multiply_adds / (cost.weights + cost.cache));
        of_attention.x.push_back(tokens);
        of_attention.y.push_back(cost.cache / (cost.weights + cost.cache));
      }
      intensity.series.push_back(std::move(series));
      share.series.push_back(std::move(of_attention));
    }
  }
  intensity.series.push_back(
      {"this machine's balance (one thread, fp32)", {kLengths.front(), kLengths.back()}, {ratio, ratio}});
  *caption = "Below the machine's balance a step waits for memory. Measured here, one thread: " +
             Digits(machine.multiply_adds / 1e9, 1) + " G multiply-adds and " + Digits(machine.elements / 1e9, 2) +
             " G fp32 elements a second, " + Digits(ratio, 1) +
             " by one. SparQ, appendix C: at most 7 for Llama 2 7B at 4096 tokens; an H100 does 295 (FP8).";
  return {std::move(intensity), std::move(share)};
}

}  // namespace

const FigureMaker& MemoryFigure() {
  static const SimpleFigure figure({"memory", "Memory of the KV cache", "SparQ Attention, appendix F",
                                    "bytes of the KV cache by length, and with a second copy of K"},
                                   MakeMemory);
  return figure;
}

const FigureMaker& IntensityFigure() {
  static const SimpleFigure figure(
      {"intensity", "Arithmetic intensity of decoding", "SparQ Attention, section 2 and appendix C",
       "multiply-adds per element moved in a decode step, beside what this machine does"},
      MakeIntensity);
  return figure;
}

}  // namespace headscope::analysis
