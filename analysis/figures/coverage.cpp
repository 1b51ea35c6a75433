// SPDX-License-Identifier: Apache-2.0
// The mass that SparQ believes to have found (alpha) beside what there is, for its temperature and others (SparQ
// Attention, figure 4f; equation 9).
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "figures/figure_list.h"
#include "figures/head_rows.h"
#include "figures/simple_figure.h"

namespace headscope::analysis {
namespace {

constexpr int32_t kLargestComponents = 32, kCoveredKeys = 128;
constexpr int64_t kCoveredRows = 16;
constexpr size_t kTemperatures = 4;
constexpr std::array<const char*, kTemperatures> kTemperatureNames = {"1", "sqrt(r)", "sqrt(d)", "equation 9"};

struct Coverage {
  double exact = 0;
  std::array<double, kTemperatures> estimates = {};
};

// What multiplies q.k for each temperature: 1/tau, where 1/sqrt(d) stands for the model's own scale.
std::array<double, kTemperatures> Scales(const HeadTensors& head, int32_t r, double share_of_norm) {
  const auto scale = static_cast<double>(head.scale), d = static_cast<double>(head.head_dim);
  return {scale * std::sqrt(d), scale * std::sqrt(d / r), scale, scale / std::sqrt(share_of_norm)};
}

std::vector<Coverage> CoverageOf(HeadRows* rows) {
  const HeadTensors& head = rows->head();
  const int32_t r = std::min(kLargestComponents, std::max(1, head.head_dim / 2));
  std::vector<Coverage> points;
  for (const int64_t row : SpacedRows(head.num_rows, kCoveredRows)) {
    const std::span<const float> p = rows->Probabilities(row);
    if (p.size() <= static_cast<size_t>(kCoveredKeys)) continue;
    Coverage point;
    const std::vector<int32_t> best = LargestIndices(p, kCoveredKeys);
    for (const int32_t column : best) point.exact += static_cast<double>(p[static_cast<size_t>(column)]);

    const float* q = head.q.data() + row * head.head_dim;
    std::vector<float> magnitudes, reduced(static_cast<size_t>(head.head_dim));
    double norm = 0, kept = 0;
    for (int32_t i = 0; i < head.head_dim; ++i) magnitudes.push_back(std::fabs(q[i]));
    for (const float magnitude : magnitudes) norm += static_cast<double>(magnitude);
    for (const int32_t i : LargestIndices(magnitudes, r)) {
      reduced[static_cast<size_t>(i)] = q[i];
      kept += static_cast<double>(magnitudes[static_cast<size_t>(i)]);
    }
    const std::array<double, kTemperatures> scales = Scales(head, r, norm > 0 ? kept / norm : 1);
    const std::span<const float> scores = rows->ScoresOf(reduced, row);  // by the model's scale
    const auto largest = static_cast<double>(*std::max_element(scores.begin(), scores.end()));
    for (size_t i = 0; i < kTemperatures; ++i) {
      const double factor = scales[i] / static_cast<double>(head.scale);
      const auto weight = [&](float score) { return std::exp(factor * (static_cast<double>(score) - largest)); };
      double all = 0, of_best = 0;
      for (const float score : scores) all += weight(score);
      for (const int32_t column : best) of_best += weight(scores[static_cast<size_t>(column)]);
      point.estimates[i] = of_best / all;
    }
    points.push_back(point);
  }
  return points;
}

std::vector<FigurePanel> MakeCoverage(const FigureInput& input, std::string* caption) {
  const auto all = OfEveryHead<std::vector<Coverage>>(input, CoverageOf);
  FigurePanel points, errors;
  points.title = "estimated and true mass, equation 9";
  points.kind = FigureKind::kPoints;
  points.diagonal = true;
  points.x = {"mass of the 128 best keys", false, 0, 1};
  points.y = {"as q's largest components estimate it", false, 0, 1};
  errors.title = "root mean square error by temperature";
  errors.kind = FigureKind::kBars;
  errors.x.title = "temperature";
  errors.y.title = "error of the mass";
  errors.categories.assign(kTemperatureNames.begin(), kTemperatureNames.end());
  for (size_t trace = 0; trace < all.size(); ++trace) {
    FigureSeries cloud{input.traces[trace].name, {}, {}}, bars{input.traces[trace].name, {}, {}};
    std::array<double, kTemperatures> squares = {};
    double count = 0;
    for (const std::vector<Coverage>& head : all[trace]) {
      for (const Coverage& point : head) {
        cloud.x.push_back(point.exact);
        cloud.y.push_back(point.estimates.back());
        for (size_t i = 0; i < kTemperatures; ++i)
          squares[i] += (point.estimates[i] - point.exact) * (point.estimates[i] - point.exact);
        ++count;
      }
    }
    for (const double sum : squares) bars.y.push_back(std::sqrt(sum / count));
    points.series.push_back(std::move(cloud));
    errors.series.push_back(std::move(bars));
  }
  *caption =
      "Mass of a row's 128 best keys, true and as q's 32 largest components (at most half of them) estimate it at the "
      "same keys. Errors: " +
      OfTraces(input,
               [&errors](size_t trace) {
                 std::string text;
                 for (const double error : errors.series[trace].y) text += (text.empty() ? "" : ", ") + Digits(error);
                 return text;
               }) +
      ". SparQ, figure 4f: 0.135, 0.067, 0.046, 0.037.";
  return {std::move(points), std::move(errors)};
}

}  // namespace

const FigureMaker& CoverageFigure() {
  static const SimpleFigure figure(
      {"coverage", "Estimated and true coverage", "SparQ Attention, figure 4f",
       "the mass that reduced scores estimate for the best keys beside what they hold, by temperature"},
      MakeCoverage);
  return figure;
}

}  // namespace headscope::analysis
