// SPDX-License-Identifier: Apache-2.0
#include "trade_off.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

constexpr double kRoomAround = 0.06;       // of what the values span
constexpr double kLeastShareShown = 0.02;  // where all runs keep the same

// The least and the largest of the values; 0 and 1 where there are none.
template <typename Value>
std::pair<double, double> Ends(const std::vector<TradeOffPoint>& points, Value value) {
  if (points.empty()) return {0, 1};
  const auto [least, most] = std::minmax_element(points.begin(), points.end(),
                                                 [&](const auto& a, const auto& b) { return value(a) < value(b); });
  return {value(*least), value(*most)};
}

}  // namespace

TradeOffAxis CostAxisOf(const std::vector<TradeOffPoint>& points, CostAxis cost) {
  if (points.empty()) return {};
  const auto [least, most] = Ends(points, [](const TradeOffPoint& point) { return point.cost; });
  const bool is_share = cost == CostAxis::kKeptShare;
  const double span = std::max(most - least, is_share ? kLeastShareShown : std::max(most / 2, 1e-6));
  // Runs that cost nearly the same stand in the middle of the least that is shown.
  const double middle = (least + most) / 2, reach = span / 2 + kRoomAround * span;
  const double begin = std::max(0.0, middle - reach), end = middle + reach;
  return is_share ? TradeOffAxis{std::min(begin, 1 - kLeastShareShown), std::min(1.0, end)} : TradeOffAxis{begin, end};
}

TradeOffAxis QualityAxisOf(const std::vector<TradeOffPoint>& points, QualityAxis quality, double target) {
  if (points.empty()) return {};
  const auto [least, most] = Ends(points, [](const TradeOffPoint& point) { return point.quality; });
  if (LessIsBetter(quality)) return {0, std::max(most * (1 + kRoomAround), 1e-9)};
  // Masses crowd just below 1, so the axis begins a little under the least of them and the target.
  return {std::max(0.0, std::floor((std::min(least, target) - 0.02) * 20) / 20), 1};
}

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
