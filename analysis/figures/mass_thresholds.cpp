// SPDX-License-Identifier: Apache-2.0
// What methods that aim at a share of the mass reach, and what they keep for it: by one share (SampleAttention, figure
// 5), and where a method has two, by both (figure 9).
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/compare.h"
#include "analysis/search.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "compare/model_window.h"
#include "compare/selected_preview.h"
#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/patterns.h"
#include "figures/simple_figure.h"
#include "kernels/sparse_index.h"

namespace headscope::analysis {
namespace {

constexpr std::array kShares = {0.70, 0.80, 0.90, 0.95, 0.98};
constexpr int64_t kBlockOfMap = 128;  // SampleAttention's own

// Methods all of whose budgets are shares of mass: one, or two.
std::vector<const kernels::PrefillMethod*> MethodsOfShares(size_t least_shares) {
  std::vector<const kernels::PrefillMethod*> methods = SearchablePatterns();
  std::erase_if(methods, [&](const kernels::PrefillMethod* method) {
    const std::vector<const kernels::ParameterSpec*> budgets = Budgets(method->spec());
    return budgets.size() < least_shares || std::ranges::any_of(budgets, [](const kernels::ParameterSpec* budget) {
             return budget->role != kernels::ParameterRole::kMassShare;
           });
  });
  return methods;
}

// Its defaults, with these shares; the last one stands for those that follow.
kernels::ParameterValues WithShares(const kernels::MethodSpec& spec, const std::vector<double>& shares) {
  kernels::ParameterValues values(spec);
  size_t place = 0;
  for (const kernels::ParameterSpec* budget : Budgets(spec)) {
    const std::string why = values.Set(spec, budget->name, shares[std::min(place++, shares.size() - 1)]);
    if (!why.empty()) throw UsageError(why);
  }
  return values;
}

// Blocks of 128 x 128 with a kept pair, by those with an attended one.
double BlocksShare(const HeadTensors& head, const kernels::SparseIndexView& index) {
  const auto num_blocks = static_cast<size_t>((head.num_tokens + kBlockOfMap - 1) / kBlockOfMap);
  int64_t kept = 0, attended = 0;
  std::vector<kernels::ColumnRange> ranges;
  std::vector<uint8_t> of_kept(num_blocks), of_attended(num_blocks);
  const auto mark = [](std::vector<uint8_t>* blocks, const kernels::ColumnRange& range) {
    for (int64_t block = range.begin / kBlockOfMap; block * kBlockOfMap < range.end; ++block)
      (*blocks)[static_cast<size_t>(block)] = 1;
  };
  for (int64_t row = 0; row < head.num_rows;) {
    const int64_t band = head.row_positions[static_cast<size_t>(row)] / kBlockOfMap;
    of_kept.assign(num_blocks, 0);
    of_attended.assign(num_blocks, 0);
    for (; row < head.num_rows && head.row_positions[static_cast<size_t>(row)] / kBlockOfMap == band; ++row) {
      ranges.clear();
      kernels::AppendKeptRanges(index, 0, 0, static_cast<int32_t>(row), &ranges);
      const kernels::ColumnRange seen = head.AttendedColumns(row);
      mark(&of_attended, seen);
      for (const kernels::ColumnRange& range : ranges)
        if (range.end > seen.begin) mark(&of_kept, {std::max(range.begin, seen.begin), range.end});
    }
    kept += std::count(of_kept.begin(), of_kept.end(), 1);
    attended += std::count(of_attended.begin(), of_attended.end(), 1);
  }
  return static_cast<double>(kept) / static_cast<double>(attended);
}

struct AtShares {
  double mean = 0, least = 0, pairs = 0, blocks = 0;
};

// One head under every setting; settings that do not take the head end in their error.
std::vector<AtShares> Reached(const HeadTensorsPtr& head, const kernels::PrefillMethod& method,
                              const std::vector<kernels::ParameterValues>& settings, const HeadMass& mass,
                              bool with_blocks, const std::stop_token& stop) {
  std::vector<AtShares> reached;
  const auto measure = [&](size_t place, kernels::SparseIndex index) {
    MaskPreview preview;
    kernels::Status status =
        PreviewSelected(mass, method, settings[place], std::make_shared<const kernels::SparseIndex>(std::move(index)),
                        /*select_ms=*/0, 1, stop, &preview);
    if (!status.ok()) return status;
    reached.push_back({preview.summary.cra_mean, preview.summary.cra_min, preview.summary.kept_fraction,
                       with_blocks ? BlocksShare(*head, preview.index->View()) : 0});
    return status;
  };
  CheckStatus(SelectEachOnHead(*head, method, settings, {1, stop}, measure), method.spec().title);
  return reached;
}

// [trace][method][setting], means over the trace's heads.
std::vector<std::vector<std::vector<AtShares>>> MeansOfHeads(
    const FigureInput& input, const std::vector<const kernels::PrefillMethod*>& methods,
    const std::vector<std::vector<kernels::ParameterValues>>& settings, bool with_blocks) {
  std::vector<std::vector<std::vector<std::vector<AtShares>>>> heads;  // [trace][head][method][setting]
  for (const FigureTrace& trace : input.traces) heads.emplace_back(trace.heads.size());
  ForEachHead(input, [&](size_t trace, size_t head, const HeadTensorsPtr& tensors) {
    const std::shared_ptr<const HeadMass> mass = HeadMass::Compute(tensors, 1, input.stop);
    for (size_t method = 0; method < methods.size(); ++method)
      heads[trace][head].push_back(
          Reached(tensors, *methods[method], settings[method], *mass, with_blocks, input.stop));
  });
  std::vector<std::vector<std::vector<AtShares>>> means;
  for (const auto& of_trace : heads) {
    means.emplace_back();
    const auto count = static_cast<double>(of_trace.size());
    for (size_t method = 0; method < methods.size(); ++method) {
      std::vector<AtShares> mean(settings[method].size());
      for (const auto& head : of_trace) {
        for (size_t setting = 0; setting < mean.size(); ++setting) {
          const AtShares& one = head[method][setting];
          mean[setting].mean += one.mean / count;
          mean[setting].least += one.least / count;
          mean[setting].pairs += one.pairs / count;
          mean[setting].blocks += one.blocks / count;
        }
      }
      means.back().push_back(std::move(mean));
    }
  }
  return means;
}

std::vector<FigurePanel> MakeCraThreshold(const FigureInput& input, std::string* caption) {
  const std::vector<const kernels::PrefillMethod*> methods = MethodsOfShares(1);
  std::vector<std::vector<kernels::ParameterValues>> settings;
  for (const kernels::PrefillMethod* method : methods) {
    settings.emplace_back();
    for (const double share : kShares) settings.back().push_back(WithShares(method->spec(), {share}));
  }
  const auto means = MeansOfHeads(input, methods, settings, /*with_blocks=*/false);
  FigurePanel recall, least, pairs;
  recall.title = "recall (mean kept mass), mean over heads";
  least.title = "CRA (least kept mass of a row), mean over heads";
  pairs.title = "kept share of the pairs, mean over heads";
  const std::array panels = {std::pair(&recall, &AtShares::mean), std::pair(&least, &AtShares::least),
                             std::pair(&pairs, &AtShares::pairs)};
  for (const auto& [panel, number] : panels) {
    panel->x = {"share of the mass that is aimed at", false, kShares.front(), 1};
    panel->y = {number == &AtShares::pairs ? "kept share" : "kept mass", false, 0, 1};
    for (size_t trace = 0; trace < means.size(); ++trace) {
      for (size_t method = 0; method < methods.size(); ++method) {
        FigureSeries series = PartOfTrace(input, trace, methods[method]->spec().title);
        for (size_t share = 0; share < kShares.size(); ++share) {
          series.x.push_back(kShares[share]);
          series.y.push_back(means[trace][method][share].*number);
        }
        panel->series.push_back(std::move(series));
      }
    }
  }
  *caption =
      "Methods whose budgets are shares of mass, each share the same, at their other defaults, over all rows. "
      "SampleAttention, figure 5: no number is printed; its accuracy of answers needs a model.";
  return {std::move(recall), std::move(least), std::move(pairs)};
}

std::vector<FigurePanel> MakeThresholdMap(const FigureInput& input, std::string* caption) {
  const std::vector<const kernels::PrefillMethod*> methods = MethodsOfShares(2);
  std::vector<std::vector<kernels::ParameterValues>> settings;
  for (const kernels::PrefillMethod* method : methods) {
    settings.emplace_back();
    for (const double first : kShares) {
      for (const double second : kShares) settings.back().push_back(WithShares(method->spec(), {first, second}));
    }
  }
  const auto means = MeansOfHeads(input, methods, settings, /*with_blocks=*/true);
  std::vector<FigurePanel> panels;
  for (size_t trace = 0; trace < means.size(); ++trace) {
    for (size_t method = 0; method < methods.size(); ++method) {
      const std::vector<const kernels::ParameterSpec*> budgets = Budgets(methods[method]->spec());
      const std::string of =
          (input.traces.size() > 1 ? input.traces[trace].name + ", " : "") + methods[method]->spec().title + ": ";
      for (const auto& [name, number] : {std::pair("recall (mean kept mass)", &AtShares::mean),
                                         std::pair("computed share of the blocks of 128", &AtShares::blocks)}) {
        FigurePanel panel;
        panel.kind = FigureKind::kHeat;
        panel.title = of + name;
        panel.x.title = budgets[1]->name;
        panel.y.title = budgets[0]->name;
        panel.value = {name, false, 0, 0};
        for (const double share : kShares) panel.categories.push_back(Digits(share, 2));
        for (size_t first = 0; first < kShares.size(); ++first) {
          FigureSeries row{Digits(kShares[first], 2), {}, {}};
          for (size_t second = 0; second < kShares.size(); ++second)
            row.y.push_back(means[trace][method][first * kShares.size() + second].*number);
          panel.series.push_back(std::move(row));
        }
        panels.push_back(std::move(panel));
      }
    }
  }
  *caption =
      "Mean over heads, over all rows, at the other parameters' defaults. SampleAttention, figure 9: scores of RULER "
      "and shares of computed blocks of GLM4-9B and Yi-9B, which it prints in the figure alone.";
  return panels;
}

}  // namespace

const FigureMaker& CraThresholdFigure() {
  static const SimpleFigure figure(
      {"cra-threshold", "Recall by the share that is aimed at", "SampleAttention, figure 5",
       "what methods that aim at a share of the mass keep of it, and of the pairs"},
      MakeCraThreshold);
  return figure;
}

const FigureMaker& ThresholdMapFigure() {
  static const SimpleFigure figure({"threshold-map", "Recall and blocks by two shares", "SampleAttention, figure 9",
                                    "recall and computed blocks over alpha_c and alpha_s", 1, /*by_class=*/false,
                                    /*of_runs=*/false, /*columns=*/2},
                                   MakeThresholdMap);
  return figure;
}

}  // namespace headscope::analysis
