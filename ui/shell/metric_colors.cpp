#include "metric_colors.h"

#include <algorithm>
#include <cmath>

#include "color_map.h"

namespace headscope::ui {

QColor SequentialColor(double position) {
  static const int index = std::max(0, ColorMapIndex("viridis"));
  const Rgb color = ColorMapPalette(index)[static_cast<size_t>(std::lround(std::clamp(position, 0.0, 1.0) * 255))];
  return {color.red, color.green, color.blue};
}

QColor DivergingColor(double position) {
  // Straight lines in sRGB from a dark end over a mid tone to near white, at both sides alike.
  struct Stop {
    double at;
    int red, green, blue;
  };
  static constexpr Stop kStops[] = {
      {0.0, 22, 62, 125}, {0.25, 86, 140, 200}, {0.5, 240, 240, 238}, {0.75, 222, 120, 84}, {1.0, 132, 24, 36}};
  const double t = std::clamp(position, 0.0, 1.0);
  size_t i = 0;
  while (i + 2 < std::size(kStops) && t > kStops[i + 1].at) ++i;
  const Stop &low = kStops[i], &high = kStops[i + 1];
  const double share = (t - low.at) / (high.at - low.at);
  const auto mix = [share](int a, int b) { return static_cast<int>(std::lround(a + share * (b - a))); };
  return {mix(low.red, high.red), mix(low.green, high.green), mix(low.blue, high.blue)};
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
