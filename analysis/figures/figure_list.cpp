// SPDX-License-Identifier: Apache-2.0
#include "figures/figure_list.h"

#include <algorithm>
#include <iterator>

#include "analysis/head_tensors.h"
#include "base/errors.h"

namespace headscope::analysis {

const std::vector<const FigureMaker*>& FigureMakers() {
#define HEADSCOPE_ADDRESS(name) &name(),
  static const std::vector<const FigureMaker*> makers = {HEADSCOPE_FIGURES(HEADSCOPE_ADDRESS)};
#undef HEADSCOPE_ADDRESS
  return makers;
}

const FigureMaker* FindFigure(const std::string& name) {
  const auto& all = FigureMakers();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const FigureMaker* maker) { return maker->info().name == name; });
  return found == all.end() ? nullptr : *found;
}

Figure MakeFigure(const FigureMaker& maker, const FigureInput& input) {
  const FigureInfo& info = maker.info();
  if (static_cast<int32_t>(input.traces.size()) < info.least_traces) {
    throw UsageError({.field = "figure",
                      .value = info.name,
                      .problem = "it compares traces",
                      .remedy = "give at least " + std::to_string(info.least_traces)});
  }
  for (const FigureTrace& one : input.traces) {
    for (int32_t slot = 0; slot < std::ssize(one.trace->layout().layers); ++slot) RequireCausal(*one.trace, slot);
  }
  Figure figure{info.name, info.title, info.source, {}, {}, info.columns};
  figure.panels = maker.Make(input, &figure.caption);
  return figure;
}

}  // namespace headscope::analysis
