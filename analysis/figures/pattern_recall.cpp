// SPDX-License-Identifier: Apache-2.0
// What each pattern keeps of a head's mass against what it computes (MInference, figure 3c).
#include "figures/pattern_recall.h"

#include <set>
#include <utility>

#include "analysis/compare.h"
#include "analysis/search.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "figures/figure_list.h"
#include "figures/first_of_class.h"
#include "figures/head_rows.h"
#include "figures/kernel_tiles.h"
#include "figures/patterns.h"
#include "figures/simple_figure.h"
#include "kernels/status.h"

namespace headscope::analysis {
namespace {

constexpr int kNumBudgets = 7;

// Budgets that are halved; the defaults of a method without one or two such.
std::vector<kernels::ParameterValues> SettingsOf(const kernels::MethodSpec& spec, int64_t num_tokens) {
  if (!CheckSearchable(spec).ok()) return {kernels::ParameterValues(spec)};
  std::vector<kernels::ParameterValues> settings;
  for (int setting = 1; setting <= kNumBudgets; ++setting) settings.push_back(HalvedBudgets(spec, num_tokens, setting));
  return settings;
}

FigurePanel PanelOf(const PatternCurves& curves, const std::string& title, const std::string& axis,
                    double PatternPoint::*saving) {
  FigurePanel panel;
  panel.title = title;
  panel.x = {axis, true, 0, 0};
  panel.y = {"recall", false, 0, 1};
  for (const auto& [name, points] : curves.points) {
    FigureSeries series{name, {}, {}};
    series.dots = points.size() == 1;
    for (const PatternPoint& point : points) {
      series.x.push_back(point.*saving);
      series.y.push_back(point.recall);
    }
    panel.series.push_back(std::move(series));
  }
  return panel;
}

// Of ChooseFirstOfClass: two panels for each head.
std::vector<FigurePanel> MakePatternRecall(const FigureInput& input, std::string* caption) {
  const FirstOfClass first = ChooseFirstOfClass(input);
  std::vector<std::vector<PatternCurves>> all;
  for (const FigureTrace& trace : first.input.traces) all.emplace_back(trace.heads.size());
  ForEachHead(first.input, [&](size_t trace, size_t head, const HeadTensorsPtr& tensors) {
    all[trace][head] = CurvesOf(tensors, kernels::PrefillMethods(), input.stop);
  });
  std::vector<FigurePanel> panels;
  std::set<std::string> left_out;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    for (size_t head = 0; head < all[trace].size(); ++head) {
      const std::string& title = first.titles[trace][head];
      panels.push_back(PanelOf(all[trace][head], title, "dense FLOPs / FLOPs in the kernel", &PatternPoint::flops));
      panels.push_back(PanelOf(all[trace][head], title, "dense pairs / kept pairs", &PatternPoint::pairs));
      for (const auto& [name, why] : all[trace][head].refused) {
        std::string sentence = " Not on ";
        sentence.append(title).append(": ").append(name).append(" (").append(why).append(").");
        left_out.insert(std::move(sentence));
      }
    }
  }
  *caption =
      "Mean kept mass of every pattern on " + FirstOfClassText() +
      ": budgets that are counts halved from the whole "
      "sequence, of shares what they leave out doubled from 1/128; patterns without one or two budgets at their "
      "defaults. FLOPs are those of a kernel that takes 64 rows at a time and gathers the keys that any of them keeps "
      "in groups of 64. MInference, figure 3c: no number is printed.";
  for (const std::string& sentence : left_out) *caption += sentence;
  return panels;
}

}  // namespace

PatternCurves CurvesOf(const HeadTensorsPtr& head, std::span<const kernels::PrefillMethod* const> methods,
                       const std::stop_token& stop) {
  const std::shared_ptr<const HeadMass> mass = HeadMass::Compute(head, 1, stop);
  PatternCurves curves;
  for (const kernels::PrefillMethod* method : methods) {
    const kernels::MethodSpec& spec = method->spec();
    if (spec.baseline) continue;
    for (const kernels::ParameterValues& values : SettingsOf(spec, head->num_tokens)) {
      MaskPreview preview;
      const kernels::Status status = PreviewMask(*mass, *method, values, 1, stop, &preview);
      if (status.code() == kernels::StatusCode::kUnsupported) {
        curves.refused[spec.title] = status.message();
        curves.points.erase(spec.title);
        break;
      }
      CheckStatus(status, spec.title);
      if (preview.summary.kept_fraction <= 0) continue;
      curves.points[spec.title].push_back({1 / preview.summary.kept_fraction,
                                           1 / ComputedShare(*head, preview.index->View()), preview.summary.cra_mean});
    }
  }
  if (curves.points.empty() && !curves.refused.empty()) {
    const auto& [title, why] = *curves.refused.begin();
    throw UsageError({.file = title, .problem = why});
  }
  return curves;
}

const FigureMaker& PatternRecallFigure() {
  static const SimpleFigure figure(
      {"pattern-recall", "Recall of patterns by cost", "MInference, figure 3c",
       "mass that each pattern keeps against the FLOPs of a kernel and against its pairs, for a head of each class", 1,
       /*by_class=*/true, /*of_runs=*/false, /*columns=*/2},
      MakePatternRecall);
  return figure;
}

}  // namespace headscope::analysis
