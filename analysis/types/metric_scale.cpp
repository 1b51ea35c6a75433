// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/metric_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/types/number_text.h"

namespace headscope::analysis {

MetricScale::MetricScale(const MetricInfo& metric, std::span<const double> values)
    : diverging_(metric.diverging), alarm_(metric.alarm) {
  if (metric.minimum != metric.maximum) {
    least_ = metric.minimum;
    most_ = metric.maximum;
  } else {
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (const double value : values) {
      if (!std::isfinite(value)) continue;
      least = std::min(least, value);
      most = std::max(most, value);
    }
    if (least > most) return;
    least_ = least;
    most_ = least == most ? least + 1 : most;
  }
  if (diverging_) {
    most_ = std::max(std::fabs(least_), std::fabs(most_));
    least_ = -most_;
  }
}

double MetricScale::Place(double value) const {
  return std::clamp((value - least_) / (most_ - least_), 0.0, 1.0);
}

Rgb MetricScale::ColorAtPlace(double place) const {
  return ColorAt(diverging_ ? DivergingPalette() : SequentialPalette(), place);
}

std::optional<Rgb> MetricScale::Color(double value) const {
  if (std::isnan(value)) return std::nullopt;
  if (value > alarm_) return kAlarmColor;
  return ColorAtPlace(Place(value));
}

Rgb InkOn(Rgb ground) {
  // Relative luminance, Rec. 709 weights; gamma left out, which only moves the switch point.
  const double luminance = (0.2126 * ground.red + 0.7152 * ground.green + 0.0722 * ground.blue) / 255;
  return luminance > 0.52 ? Rgb{20, 20, 24} : Rgb{245, 245, 248};
}

std::string MetricText(double value) {
  if (!std::isfinite(value)) return "–";
  if (std::fabs(value) < 0.0005) value = 0;  // what rounds to zero has no sign
  const double size = std::fabs(value);
  return FormatNumber(size >= 1000 ? "%.0f" : size >= 100 ? "%.1f" : size >= 10 ? "%.2f" : "%.3f", value);
}

}  // namespace headscope::analysis
