// SPDX-License-Identifier: Apache-2.0
// Along which of its axes V is correlated: how much of its variance the mean over an axis explains (SparQ Attention,
// table 1).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/errors.h"
#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

constexpr int64_t kMostTokens = 1024;  // the last ones, as in the published code
enum Axis : uint8_t { kPrompt, kToken, kLayer, kHead, kComponent, kAxes };
constexpr std::array<const char*, kAxes> kAxisNames = {"prompt", "sequence", "layer", "head", "component"};

// [prompt, token, layer, head, component].
struct Values {
  std::array<int64_t, kAxes> sizes = {};
  std::vector<float> values;
};

Values LastValues(const FigureInput& input) {
  Values all;
  int64_t tokens = kMostTokens;
  for (const FigureTrace& trace : input.traces) tokens = std::min(tokens, trace.trace->num_tokens());
  // Of every trace the KV heads of every layer: a query head that reads each.
  std::vector<std::map<int32_t, std::map<int32_t, HeadTensorsPtr>>> heads(input.traces.size());
  for (size_t trace = 0; trace < heads.size(); ++trace) {
    for (const HeadId& id : input.traces[trace].heads) {
      const HeadTensorsPtr head = LoadHead(*input.traces[trace].trace, id);
      heads[trace][id.layer].emplace(head->kv_head, head);
    }
  }
  const auto& first = heads.front().begin()->second;
  const int32_t size = first.begin()->second->ValueDim();
  for (size_t trace = 0; trace < heads.size(); ++trace) {
    const bool alike = heads[trace].size() == heads.front().size() &&
                       std::all_of(heads[trace].begin(), heads[trace].end(), [&](const auto& layer) {
                         return layer.second.size() == first.size() &&
                                std::all_of(layer.second.begin(), layer.second.end(),
                                            [&](const auto& head) { return head.second->ValueDim() == size; });
                       });
    if (!alike) {
      throw UsageError({.field = "heads",
                        .problem = "layers of " + input.traces[trace].name + " differ in KV heads or in v_head_dim",
                        .remedy = "choose layers and heads that are alike"});
    }
  }
  all.sizes = {std::ssize(heads), tokens, std::ssize(heads.front()), std::ssize(first), size};
  for (const auto& layers : heads) {
    for (int64_t token = 0; token < tokens; ++token) {
      for (const auto& [layer, of_layer] : layers) {
        for (const auto& [number, head] : of_layer) {
          const float* const v = head->v.data() + (head->num_tokens - tokens + token) * size;
          all.values.insert(all.values.end(), v, v + size);
        }
      }
    }
  }
  return all;
}

// sqrt(between / all) - size^-1/2, where `between` counts every number with the mean along the axis in its place.
double ExcessAlong(const Values& all, Axis axis) {
  int64_t inner = 1;
  for (size_t after = axis + size_t{1}; after < all.sizes.size(); ++after) inner *= all.sizes[after];
  const int64_t size = all.sizes[axis], outer = std::ssize(all.values) / (inner * size);
  if (size < 2) return std::numeric_limits<double>::quiet_NaN();
  double mean = 0, total = 0, between = 0;
  for (const float value : all.values) mean += static_cast<double>(value) / static_cast<double>(all.values.size());
  for (const float value : all.values) total += std::pow(static_cast<double>(value) - mean, 2);
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      double along = 0;
      for (int64_t at = 0; at < size; ++at)
        along += static_cast<double>(all.values[static_cast<size_t>((i * size + at) * inner + j)]);
      between += static_cast<double>(size) * std::pow(along / static_cast<double>(size) - mean, 2);
    }
  }
  return std::sqrt(between / total) - 1 / std::sqrt(static_cast<double>(size));
}

std::vector<FigurePanel> MakeValueAxes(const FigureInput& input, std::string* caption) {
  const Values all = LastValues(input);
  FigurePanel bars;
  bars.title = "excess correlation ratio of V along each axis";
  bars.kind = FigureKind::kBars;
  bars.y.title = "excess correlation ratio";
  bars.series.push_back({"", {}, {}});
  for (size_t axis = 0; axis < kAxes; ++axis) {
    if (all.sizes[axis] < 2) continue;  // one prompt, one layer: nothing to be alike
    bars.categories.emplace_back(kAxisNames[axis]);
    bars.series.front().y.push_back(ExcessAlong(all, static_cast<Axis>(axis)));
  }
  *caption =
      "Over V's last " + std::to_string(all.sizes[kToken]) +
      " tokens, all chosen layers and KV heads together. SparQ, table 1 (Llama 2 7B): prompt 0.143, sequence 0.256, "
      "layer, head and component 0.0.";
  return {std::move(bars)};
}

}  // namespace

const FigureMaker& ValueAxesFigure() {
  static const SimpleFigure figure({"v-axes", "Correlation of V along its axes", "SparQ Attention, table 1",
                                    "how alike values are along prompts, tokens, layers, heads and components"},
                                   MakeValueAxes);
  return figure;
}

}  // namespace headscope::analysis
