// SPDX-License-Identifier: Apache-2.0
// How q's components are spread: kernel density estimates beside a Gaussian (SparQ Attention, figure 4c).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

// Of the estimate's Gaussian kernel, in standard deviations of the components; the published code's.
constexpr double kBandwidth = 0.2;
// Where it is taken: kPlaces values of z from -kFarthest to kFarthest.
constexpr double kFarthest = 8;
constexpr int kPlaces = 161;
// In bandwidths; what the kernel gives to a value farther off is below the last digit of a double.
constexpr double kReach = 9;

double PlaceAt(int index) {
  return kFarthest * (2.0 * index / (kPlaces - 1) - 1);
}

double GaussianDensity(double z) {
  return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
}

// Density at every place of the components of the looked-at rows, z-scored by their common mean and deviation; NaN of a
// head whose components are all equal.
std::vector<double> DensityOf(const HeadTensors& head, int64_t max_rows) {
  std::vector<double> values;
  for (const int64_t row : SpacedRows(head.num_rows, max_rows)) {
    const float* const q = head.q.data() + row * head.head_dim;
    values.insert(values.end(), q, q + head.head_dim);
  }
  const auto count = static_cast<double>(values.size());
  double mean = 0, variance = 0;
  for (const double value : values) mean += value / count;
  for (const double value : values) variance += (value - mean) * (value - mean) / count;
  const double deviation = std::sqrt(variance);
  std::vector<double> density(kPlaces);
  for (const double value : values) {
    const double z = (value - mean) / deviation;
    for (int at = 0; at < kPlaces; ++at) {
      const double off = (PlaceAt(at) - z) / kBandwidth;
      if (!(std::fabs(off) > kReach)) density[static_cast<size_t>(at)] += GaussianDensity(off) / (count * kBandwidth);
    }
  }
  return density;
}

// Of every trace the heads of its middle recorded layer, as the paper has those of layer 16 of 32.
FigureInput WithMiddleLayers(const FigureInput& input) {
  FigureInput chosen = input;
  for (FigureTrace& trace : chosen.traces) {
    const std::vector<int32_t> layers = LayersOf(trace);
    const int32_t middle = layers[layers.size() / 2];
    std::erase_if(trace.heads, [middle](const HeadId& head) { return head.layer != middle; });
  }
  return chosen;
}

std::vector<FigurePanel> MakeQueryDensity(const FigureInput& asked, std::string* caption) {
  const FigureInput input = WithMiddleLayers(asked);
  const auto all = OfEveryHead<std::vector<double>>(
      input, [&input](HeadRows* rows) { return DensityOf(rows->head(), input.max_rows); });
  FigureSeries gaussian{"Gaussian", {}, {}};
  for (int at = 0; at < kPlaces; ++at) {
    gaussian.x.push_back(PlaceAt(at));
    gaussian.y.push_back(GaussianDensity(PlaceAt(at)));
  }
  std::vector<FigurePanel> panels;
  for (size_t trace = 0; trace < all.size(); ++trace) {
    FigurePanel linear;
    linear.title = (input.traces.size() > 1 ? input.traces[trace].name + ", " : "") + "layer " +
                   std::to_string(input.traces[trace].heads.front().layer);
    linear.x = {"component of q, standard deviations from the mean", false, -kFarthest, kFarthest};
    linear.y.title = "density";
    for (size_t head = 0; head < all[trace].size(); ++head) {
      linear.series.push_back(
          {"head " + std::to_string(input.traces[trace].heads[head].head), gaussian.x, all[trace][head]});
    }
    linear.series.push_back(gaussian);
    linear.series.back().reference = true;
    FigurePanel tails = linear;
    tails.title += ", tails";
    tails.y = {"density", true, 1e-5, 2};
    panels.push_back(std::move(linear));
    panels.push_back(std::move(tails));
  }
  *caption =
      "Kernel density estimates (Gaussian kernel, bandwidth 0.2) of the z-scored components of q, one per head of the "
      "middle layer, beside a Gaussian. SparQ, figure 4c: heavy tails in layer 16 of Llama 2 7B.";
  return panels;
}

}  // namespace

const FigureMaker& QueryDensityFigure() {
  static const SimpleFigure figure({"query-density", "Density of q's components", "SparQ Attention, figure 4c",
                                    "how the components of q of a middle layer are spread, beside a Gaussian"},
                                   MakeQueryDensity);
  return figure;
}

}  // namespace headscope::analysis
