// SPDX-License-Identifier: Apache-2.0
// Mean weight and mean logit by distance.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

// Bin 0 is distance 0, bin b > 0 distances 2^(b-1) to 2^b - 1.
constexpr size_t kBins = 32;
size_t BinOf(int64_t distance) {
  return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(distance)));
}

struct ByDistance {
  std::array<double, kBins> weight = {}, logit = {}, count = {};
};

ByDistance SumByDistance(HeadRows* rows, int64_t max_rows) {
  const HeadTensors& head = rows->head();
  ByDistance sums;
  for (const int64_t row : SpacedRows(head.num_rows, max_rows)) {
    const std::span<const float> scores = rows->Scores(row);
    const auto lse = static_cast<double>(head.lse[static_cast<size_t>(row)]);
    const int64_t first = head.row_positions[static_cast<size_t>(row)] - head.AttendedColumns(row).begin;
    for (size_t i = 0; i < scores.size(); ++i) {
      const size_t bin = BinOf(first - static_cast<int64_t>(i));
      sums.weight[bin] += std::exp(static_cast<double>(scores[i]) - lse);
      sums.logit[bin] += static_cast<double>(scores[i]);
      sums.count[bin] += 1;
    }
  }
  return sums;
}

std::vector<FigurePanel> MakeDistance(const FigureInput& input, std::string* caption) {
  const auto all =
      OfEveryHead<ByDistance>(input, [&input](HeadRows* rows) { return SumByDistance(rows, input.max_rows); });
  FigurePanel weights, logits;
  weights.title = "mean weight of a key";
  logits.title = "mean logit of a key";
  weights.x = logits.x = {"distance + 1, tokens", true, 0, 0};
  weights.y = {"probability", true, 0, 0};
  logits.y.title = "scaled score";
  weights.ordered = logits.ordered = true;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    const FigureTrace& of = input.traces[trace];
    for (const int32_t layer : LayersOf(of)) {
      FigureSeries weight = PartOfTrace(input, trace, "layer " + std::to_string(layer));
      FigureSeries logit = weight;
      for (size_t bin = 0; bin < kBins; ++bin) {
        std::vector<double> mean_weights, mean_logits;
        for (size_t head = 0; head < of.heads.size(); ++head) {
          if (of.heads[head].layer != layer || all[trace][head].count[bin] == 0) continue;
          mean_weights.push_back(all[trace][head].weight[bin] / all[trace][head].count[bin]);
          mean_logits.push_back(all[trace][head].logit[bin] / all[trace][head].count[bin]);
        }
        if (mean_weights.empty()) continue;
        weight.x.push_back(std::exp2(static_cast<double>(bin)));
        weight.y.push_back(MeanOfNumbers(mean_weights));
        logit.x.push_back(weight.x.back());
        logit.y.push_back(MeanOfNumbers(mean_logits));
      }
      weights.series.push_back(std::move(weight));
      logits.series.push_back(std::move(logit));
    }
  }
  *caption = "Mean over rows and the heads of a layer, in bins that double: distance 0, 1, 2 to 3, 4 to 7, and on.";
  return {std::move(weights), std::move(logits)};
}

}  // namespace

const FigureMaker& DistanceFigure() {
  static const SimpleFigure figure({"weight-by-distance", "Weight and logit by distance", "",
                                    "mean probability and mean score of a key by its distance, by layer"},
                                   MakeDistance);
  return figure;
}

}  // namespace headscope::analysis
