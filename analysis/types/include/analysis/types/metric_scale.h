// SPDX-License-Identifier: Apache-2.0
// Colours of metrics, wherever they are shown.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>

#include "analysis/types/color_map.h"
#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

// What a metric's colours span: its own range, else that of the values that are known; about zero for a signed one.
class MetricScale {
 public:
  MetricScale() = default;  // 0 to 1
  // NaN and infinite ones among `values` are left out.
  MetricScale(const MetricInfo& metric, std::span<const double> values);

  double least() const { return least_; }
  double most() const { return most_; }
  // 0 to 1 between them; clamped.
  double Place(double value) const;
  Rgb ColorAtPlace(double place) const;
  // Nothing for NaN; kAlarmColor above the metric's alarm.
  std::optional<Rgb> Color(double value) const;

 private:
  double least_ = 0, most_ = 1;
  bool diverging_ = false;
  double alarm_ = std::numeric_limits<double>::infinity();
};

// Of a value above its metric's alarm: a red that no palette has.
inline constexpr Rgb kAlarmColor{225, 20, 40};

// Black or white, whichever reads better on `ground`.
Rgb InkOn(Rgb ground);
// A metric's value as people read it: three digits behind the point, fewer of large ones; a dash for what is no number.
std::string MetricText(double value);

}  // namespace headscope::analysis
