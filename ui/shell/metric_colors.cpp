// SPDX-License-Identifier: Apache-2.0
#include "metric_colors.h"

#include <algorithm>
#include <cmath>

#include "analysis/types/color_map.h"

namespace headscope::ui {

namespace {

QColor ToQt(const analysis::Rgb& color) {
  return {color.red, color.green, color.blue};
}

}  // namespace

QColor SequentialColor(double position) {
  return ToQt(analysis::ColorAt(analysis::SequentialPalette(), position));
}

QColor DivergingColor(double position) {
  return ToQt(analysis::ColorAt(analysis::DivergingPalette(), position));
}

QColor MetricColor(double value, double least, double most, bool diverging) {
  if (std::isnan(value)) return {};
  if (diverging) {
    const double reach = std::max(std::abs(least), std::abs(most));
    return DivergingColor(reach > 0 ? 0.5 + 0.5 * value / reach : 0.5);
  }
  return SequentialColor(most > least ? (value - least) / (most - least) : 0);
}

QColor ClassColor(analysis::HeadClass head_class) {
  using analysis::HeadClass;
  switch (head_class) {
    case HeadClass::kSinkLocal:
      return {86, 140, 200};
    case HeadClass::kVerticalSlash:
      return {214, 126, 44};
    case HeadClass::kBlock:
      return {70, 158, 118};
    case HeadClass::kDiffuse:
      return {176, 176, 182};
    case HeadClass::kRetrieval:
      return {192, 72, 120};
    case HeadClass::kUnknown:
      break;
  }
  return {110, 110, 116};
}

QColor TextOn(const QColor& ground) {
  // Relative luminance, Rec. 709 weights; gamma left out, which only moves the switch point.
  const double luminance = 0.2126 * ground.redF() + 0.7152 * ground.greenF() + 0.0722 * ground.blueF();
  return luminance > 0.52 ? QColor(20, 20, 24) : QColor(245, 245, 248);
}

}  // namespace headscope::ui
