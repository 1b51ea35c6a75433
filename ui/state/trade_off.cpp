// SPDX-License-Identifier: Apache-2.0
#include "trade_off.h"

#include <algorithm>
#include <cmath>

namespace headscope::ui {
namespace {

double CostOf(const analysis::MethodResult& run, CostAxis axis) {
  return axis == CostAxis::kKeptShare ? run.kept_fraction : run.select.median_ms + run.attend.median_ms;
}

double QualityOf(const analysis::MethodResult& run, QualityAxis axis) {
  switch (axis) {
    case QualityAxis::kCraFifth:
      return run.cra_p5;
    case QualityAxis::kCraMean:
      return run.cra_mean;
    case QualityAxis::kRelativeError:
      break;
  }
  return run.relative_error;
}

}  // namespace

bool LessIsBetter(QualityAxis axis) {
  return axis == QualityAxis::kRelativeError;
}

const char* CostName(CostAxis axis) {
  return axis == CostAxis::kKeptShare ? "kept share of the pairs" : "select + attend (ms)";
}

const char* QualityName(QualityAxis axis) {
  switch (axis) {
    case QualityAxis::kCraFifth:
      return "CRA, 5th percentile (share)";
    case QualityAxis::kCraMean:
      return "CRA, mean (share)";
    case QualityAxis::kRelativeError:
      break;
  }
  return "relative error of the output";
}

std::vector<TradeOffPoint> MakeTradeOff(const std::vector<analysis::MethodResult>& runs, analysis::HeadId head,
                                        kernels::Phase phase, CostAxis cost, QualityAxis quality) {
  std::vector<TradeOffPoint> points;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].head != head || runs[i].phase != phase) continue;
    const TradeOffPoint point{i, CostOf(runs[i], cost), QualityOf(runs[i], quality), false};
    if (std::isfinite(point.cost) && std::isfinite(point.quality)) points.push_back(point);
  }
  const double sign = LessIsBetter(quality) ? -1 : 1;
  for (TradeOffPoint& point : points) {
    point.on_front = std::none_of(points.begin(), points.end(), [&](const TradeOffPoint& other) {
      const double better = sign * (other.quality - point.quality);
      return other.cost <= point.cost && better >= 0 && (other.cost < point.cost || better > 0);
    });
  }
  return points;
}

std::vector<TradeOffPoint> Front(const std::vector<TradeOffPoint>& points) {
  std::vector<TradeOffPoint> front;
  std::copy_if(points.begin(), points.end(), std::back_inserter(front),
               [](const TradeOffPoint& point) { return point.on_front; });
  std::stable_sort(front.begin(), front.end(),
                   [](const TradeOffPoint& a, const TradeOffPoint& b) { return a.cost < b.cost; });
  return front;
}

}  // namespace headscope::ui
