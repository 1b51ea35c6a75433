// SPDX-License-Identifier: Apache-2.0
// What each pattern keeps of a head's mass against what it computes (MInference, figure 3c).
#include <map>

#include "analysis/compare.h"
#include "base/check_status.h"
#include "figures/figure_list.h"
#include "figures/first_of_class.h"
#include "figures/head_rows.h"
#include "figures/patterns.h"
#include "figures/simple_figure.h"
#include "kernels/method.h"

namespace headscope::analysis {
namespace {

constexpr int kSettings = 7;

struct Point {
  double saving = 0, recall = 0;  // dense pairs by kept ones
};
using Curves = std::map<std::string, std::vector<Point>>;  // by method title

Curves CurvesOf(const HeadTensorsPtr& head, const std::stop_token& stop) {
  const std::shared_ptr<const HeadMass> mass = HeadMass::Compute(head, 1, stop);
  Curves curves;
  for (const kernels::PrefillMethod* method : SearchablePatterns()) {
    const kernels::MethodSpec& spec = method->spec();
    for (int setting = 1; setting <= kSettings; ++setting) {
      MaskPreview preview;
      const kernels::ParameterValues values = HalvedBudgets(spec, head->num_tokens, setting);
      CheckStatus(PreviewMask(*mass, *method, values, 1, stop, &preview), spec.title);
      if (preview.summary.kept_fraction > 0)
        curves[spec.title].push_back({1 / preview.summary.kept_fraction, preview.summary.cra_mean});
    }
  }
  return curves;
}

// The first head of each class: a panel for each kind of head.
std::vector<FigurePanel> MakePatternRecall(const FigureInput& input, std::string* caption) {
  const FirstOfClass first = ChooseFirstOfClass(input);
  std::vector<std::vector<Curves>> all;
  for (const FigureTrace& trace : first.input.traces) all.emplace_back(trace.heads.size());
  ForEachHead(first.input, [&](size_t trace, size_t head, const HeadTensorsPtr& tensors) {
    all[trace][head] = CurvesOf(tensors, input.stop);
  });
  std::vector<FigurePanel> panels;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    for (size_t head = 0; head < all[trace].size(); ++head) {
      FigurePanel panel;
      panel.title = first.titles[trace][head];
      panel.x = {"dense pairs / kept pairs", true, 0, 0};
      panel.y = {"recall", false, 0, 1};
      for (const auto& [title, points] : all[trace][head]) {
        FigureSeries series{title, {}, {}};
        for (const Point& point : points) {
          series.x.push_back(point.saving);
          series.y.push_back(point.recall);
        }
        panel.series.push_back(std::move(series));
      }
      panels.push_back(std::move(panel));
    }
  }
  *caption =
      "Mean kept mass of every pattern on the first head of each class: budgets that are counts halved from the whole "
      "sequence, of shares what they leave out doubled from 1/128. MInference, figure 3c: no number is printed.";
  return panels;
}

}  // namespace

const FigureMaker& PatternRecallFigure() {
  static const SimpleFigure figure(
      {"pattern-recall", "Recall of patterns by cost", "MInference, figure 3c",
       "mass that each pattern keeps against the pairs it computes, one panel per class of heads", 1,
       /*by_class=*/true},
      MakePatternRecall);
  return figure;
}

}  // namespace headscope::analysis
