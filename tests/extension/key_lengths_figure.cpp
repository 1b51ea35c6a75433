// SPDX-License-Identifier: Apache-2.0
// A figure as an extension adds it: the length of every key of a head.
#include <cmath>

#include "analysis/head_tensors.h"
#include "base/stop.h"
#include "figures/figure_list.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

std::vector<FigurePanel> MakeKeyLengths(const FigureInput& input, std::string* caption) {
  FigurePanel panel{.title = "Keys", .x = {"token"}, .y = {"|k|"}};
  for (const FigureTrace& one : input.traces) {
    for (const HeadId& id : one.heads) {
      StopIfAsked(input.stop);
      const HeadTensorsPtr head = LoadHead(*one.trace, id);
      FigureSeries series{one.name + ", " + std::to_string(id.layer) + ":" + std::to_string(id.head), {}, {}};
      for (int64_t token = 0; token < head->num_tokens; ++token) {
        double squares = 0;
        for (int32_t i = 0; i < head->head_dim; ++i) {
          const auto value = static_cast<double>(head->k[static_cast<size_t>(token * head->head_dim + i)]);
          squares += value * value;
        }
        series.x.push_back(static_cast<double>(token));
        series.y.push_back(std::sqrt(squares));
      }
      panel.series.push_back(std::move(series));
    }
  }
  *caption = "The Euclidean norm of every key.";
  return {std::move(panel)};
}

}  // namespace

const FigureMaker& KeyLengthsFigure() {
  static const SimpleFigure figure({"key-lengths", "Length of keys", "", "the length of every key of a head"},
                                   &MakeKeyLengths);
  return figure;
}

}  // namespace headscope::analysis
