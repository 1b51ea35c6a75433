// SPDX-License-Identifier: Apache-2.0
// What a fixed number of columns holds of a head's mass, its own columns or another prompt's (MInference, figures 2b
// and 2c).
#include <algorithm>
#include <numeric>

#include "base/errors.h"
#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

// The paper keeps 4096 columns of 128K tokens.
int64_t KeptColumns(int64_t num_tokens) {
  return std::max<int64_t>(1, num_tokens / 32);
}

// Mass of every column over the looked-at rows.
std::vector<double> ColumnSums(HeadRows* rows, int64_t max_rows) {
  const HeadTensors& head = rows->head();
  std::vector<double> sums(static_cast<size_t>(head.num_tokens));
  for (const int64_t row : SpacedRows(head.num_rows, max_rows)) {
    const int64_t begin = head.AttendedColumns(row).begin;
    const std::span<const float> p = rows->Probabilities(row);
    for (size_t i = 0; i < p.size(); ++i) sums[static_cast<size_t>(begin) + i] += static_cast<double>(p[i]);
  }
  return sums;
}

double ShareOf(const std::vector<double>& sums, const std::vector<int32_t>& columns) {
  double kept = 0;
  for (const int32_t column : columns) {
    if (static_cast<size_t>(column) < sums.size()) kept += sums[static_cast<size_t>(column)];
  }
  return kept / std::accumulate(sums.begin(), sums.end(), 0.0);
}

std::vector<std::vector<std::vector<double>>> AllColumnSums(const FigureInput& input) {
  return OfEveryHead<std::vector<double>>(input, [&input](HeadRows* rows) { return ColumnSums(rows, input.max_rows); });
}

std::vector<FigurePanel> MakeColumnRecall(const FigureInput& input, std::string* caption) {
  const auto sums = AllColumnSums(input);
  FigurePanel histogram;
  histogram.title = "distribution over heads";
  histogram.x.title = "recall of the best columns";
  histogram.y.title = "share of heads";
  std::vector<FigurePanel> panels;
  std::vector<double> means;
  for (size_t trace = 0; trace < sums.size(); ++trace) {
    std::vector<double> recall;
    for (const std::vector<double>& of_head : sums[trace])
      recall.push_back(ShareOf(of_head, LargestIndices(of_head, KeptColumns(static_cast<int64_t>(of_head.size())))));
    means.push_back(MeanOfNumbers(recall));
    histogram.series.push_back(Histogram(input.traces[trace].name, recall, 0, 1, 20));
    panels.push_back(HeadsAsHeat(input.traces[trace], "recall: " + input.traces[trace].name,
                                 "mass of the best 1/32 of the columns", [&](size_t head) { return recall[head]; }));
  }
  ShareValueRange(&panels);
  panels.push_back(std::move(histogram));
  *caption = "Mass of a head's best columns, one in 32 of the tokens, on average over heads: " +
             DigitsOfTraces(input, [&means](size_t trace) { return means[trace]; }) +
             ". MInference, figure 2b: 0.968 with 4096 of 128K columns (LLaMA-3-8B).";
  return panels;
}

std::vector<FigurePanel> MakeIndexTransfer(const FigureInput& input, std::string* caption) {
  for (const FigureTrace& trace : input.traces) {
    if (trace.heads != input.traces.front().heads) {
      throw UsageError({.field = "heads",
                        .problem = trace.name + " holds different heads from " + input.traces.front().name,
                        .remedy = "choose heads that both have"});
    }
  }
  const auto sums = AllColumnSums(input);
  FigurePanel panel;
  panel.title = "mean recall of the best columns";
  panel.kind = FigureKind::kHeat;
  panel.x.title = "columns of";
  panel.y.title = "mass of";
  panel.value = {"recall", false, 0, 1};
  double own = 0, other = 0, others = 0;
  for (size_t of = 0; of < sums.size(); ++of) {
    panel.categories.push_back(input.traces[of].name);
    FigureSeries row{input.traces[of].name, {}, {}};
    for (size_t from = 0; from < sums.size(); ++from) {
      std::vector<double> recall;
      for (size_t head = 0; head < sums[of].size(); ++head) {
        const std::vector<double>& columns = sums[from][head];
        recall.push_back(
            ShareOf(sums[of][head], LargestIndices(columns, KeptColumns(static_cast<int64_t>(sums[of][head].size())))));
      }
      row.y.push_back(MeanOfNumbers(recall));
      if (of == from) {
        own += row.y.back() / static_cast<double>(sums.size());
      } else {
        other += row.y.back();
        ++others;
      }
    }
    panel.series.push_back(std::move(row));
  }
  *caption = "Recall of the best columns, one in 32 of the tokens: " + Digits(own) + " with a prompt's own, " +
             Digits(other / others) + " with another's. MInference, figures 2b and 2c: 0.968 and 0.837.";
  return {std::move(panel)};
}

}  // namespace

const FigureMaker& ColumnRecallFigure() {
  static const SimpleFigure figure({"column-recall", "Recall of the best columns", "MInference, figure 2b",
                                    "mass of the best 1/32 of the columns, by layer and head"},
                                   MakeColumnRecall);
  return figure;
}

const FigureMaker& IndexTransferFigure() {
  static const SimpleFigure figure({"index-transfer", "Columns of another prompt", "MInference, figure 2c",
                                    "mass that one prompt's best columns hold in another", 2},
                                   MakeIndexTransfer);
  return figure;
}

}  // namespace headscope::analysis
