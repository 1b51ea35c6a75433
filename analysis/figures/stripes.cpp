// SPDX-License-Identifier: Apache-2.0
// What the best column and slash stripes keep of every row, chosen by all scores or by those of a few sampled rows
// (SampleAttention, figure 7 and table 5).
#include <algorithm>
#include <array>
#include <cmath>

#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

// Of columns and of slashes each, per cent.
constexpr std::array kRatios = {2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0};
constexpr int64_t kSampledBlock = 128, kSampledChunks = 2;

struct Stripes {
  std::vector<double> columns, slashes;  // mass by position, by distance
};

// The last kSampledBlock rows of each chunk, as the method samples them.
std::vector<int64_t> RowsOfSampling(int64_t num_rows) {
  std::vector<int64_t> rows;
  for (int64_t chunk = 1; chunk <= kSampledChunks; ++chunk) {
    const int64_t end = chunk * num_rows / kSampledChunks;
    const int64_t begin = std::max((chunk - 1) * num_rows / kSampledChunks, end - kSampledBlock);
    for (int64_t row = begin; row < end; ++row) rows.push_back(row);
  }
  return rows;
}

Stripes SumStripes(HeadRows* rows, const std::vector<int64_t>& chosen) {
  const HeadTensors& head = rows->head();
  Stripes sums{std::vector<double>(static_cast<size_t>(head.num_tokens)),
               std::vector<double>(static_cast<size_t>(head.num_tokens))};
  for (const int64_t row : chosen) {
    const int64_t begin = head.AttendedColumns(row).begin;
    const int64_t position = head.row_positions[static_cast<size_t>(row)];
    const std::span<const float> p = rows->Probabilities(row);
    for (size_t i = 0; i < p.size(); ++i) {
      const auto column = static_cast<size_t>(begin) + i;
      sums.columns[column] += static_cast<double>(p[i]);
      sums.slashes[static_cast<size_t>(position) - column] += static_cast<double>(p[i]);
    }
  }
  return sums;
}

// For every stripe the first of kRatios that keeps it.
std::vector<uint8_t> FirstRatio(const std::vector<double>& sums) {
  std::vector<uint8_t> first(sums.size(), kRatios.size());
  for (size_t ratio = kRatios.size(); ratio-- > 0;) {
    const auto kept = static_cast<int64_t>(std::ceil(kRatios[ratio] / 100 * static_cast<double>(sums.size())));
    for (const int32_t stripe : LargestIndices(sums, kept))
      first[static_cast<size_t>(stripe)] = static_cast<uint8_t>(ratio);
  }
  return first;
}

struct Curve {
  std::array<double, kRatios.size()> least = {}, mean = {};
};

// Mass that the stripes keep of the rows that are looked at.
Curve CurveOf(HeadRows* rows, const Stripes& sums, int64_t max_rows) {
  const HeadTensors& head = rows->head();
  const std::vector<uint8_t> by_column = FirstRatio(sums.columns), by_slash = FirstRatio(sums.slashes);
  Curve curve;
  curve.least.fill(1);
  const std::vector<int64_t> looked_at = SpacedRows(head.num_rows, max_rows);
  for (const int64_t row : looked_at) {
    std::array<double, kRatios.size() + 1> mass = {};
    const int64_t begin = head.AttendedColumns(row).begin;
    const int64_t position = head.row_positions[static_cast<size_t>(row)];
    const std::span<const float> p = rows->Probabilities(row);
    for (size_t i = 0; i < p.size(); ++i) {
      const auto column = static_cast<size_t>(begin) + i;
      mass[std::min(by_column[column], by_slash[static_cast<size_t>(position) - column])] += static_cast<double>(p[i]);
    }
    double kept = 0;
    for (size_t ratio = 0; ratio < kRatios.size(); ++ratio) {
      kept += mass[ratio];
      curve.least[ratio] = std::min(curve.least[ratio], kept);
      curve.mean[ratio] += kept / static_cast<double>(looked_at.size());
    }
  }
  return curve;
}

struct BothCurves {
  Curve full, sampled;
};

std::vector<FigurePanel> MakeStripes(const FigureInput& input, std::string* caption) {
  const auto all = OfEveryHead<BothCurves>(input, [&input](HeadRows* rows) {
    const int64_t num_rows = rows->head().num_rows;
    return BothCurves{CurveOf(rows, SumStripes(rows, SpacedRows(num_rows, 0)), input.max_rows),
                      CurveOf(rows, SumStripes(rows, RowsOfSampling(num_rows)), input.max_rows)};
  });
  FigurePanel least, mean;
  least.title = "CRA (minimum over the rows), mean over heads";
  mean.title = "kept mass (mean over the rows), mean over heads";
  least.x = mean.x = {"kept columns and slashes, % of each", false, 0, 100};
  least.y = mean.y = {"kept mass", false, 0, 1};
  for (size_t trace = 0; trace < all.size(); ++trace) {
    for (const auto& [name, curve] :
         {std::pair{"all scores", &BothCurves::full}, std::pair{"sampled scores", &BothCurves::sampled}}) {
      FigureSeries of_least = PartOfTrace(input, trace, name);
      FigureSeries of_mean = of_least;
      for (size_t ratio = 0; ratio < kRatios.size(); ++ratio) {
        double sum_least = 0, sum_mean = 0;
        for (const BothCurves& head : all[trace]) {
          sum_least += (head.*curve).least[ratio] / static_cast<double>(all[trace].size());
          sum_mean += (head.*curve).mean[ratio] / static_cast<double>(all[trace].size());
        }
        of_least.x.push_back(kRatios[ratio]);
        of_mean.x.push_back(kRatios[ratio]);
        of_least.y.push_back(sum_least);
        of_mean.y.push_back(sum_mean);
      }
      least.series.push_back(std::move(of_least));
      mean.series.push_back(std::move(of_mean));
    }
  }
  const int64_t num_rows = input.traces.front().trace->num_rows();
  *caption =
      "Stripes by all rows' mass and by that of 2 x 128 sampled rows (" +
      Digits(100 * static_cast<double>(RowsOfSampling(num_rows).size()) / static_cast<double>(num_rows), 1) +
      " % of the first trace). SampleAttention, table 5, CRA at 2.5 / 10 / 20 / 40 / 80 % of three heads: 16 / 27 "
      "/ 46 / 58 / 96, 55 / 64 / 86 / 89 / 99, 93 / 98 / 99 / 99 / 100 %; 0.1 to 7 points less by samples.";
  return {std::move(least), std::move(mean)};
}

}  // namespace

const FigureMaker& StripesFigure() {
  static const SimpleFigure figure(
      {"stripes", "Stripes by all scores and by samples", "SampleAttention, figure 7 and table 5",
       "mass that the best column and slash stripes keep, chosen by all rows or by a sample"},
      MakeStripes);
  return figure;
}

}  // namespace headscope::analysis
