// SPDX-License-Identifier: Apache-2.0
#include "report/head_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "analysis/report.h"
#include "analysis/types/color_map.h"
#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"

namespace headscope::analysis {
namespace {

std::string HexColor(const Palette& palette, double place) {
  const Rgb color = ColorAt(palette, place);
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", color.red, color.green, color.blue);
  return text;
}

struct Range {
  double minimum, maximum;
  double Place(double value) const { return maximum > minimum ? (value - minimum) / (maximum - minimum) : 0.5; }
};

// The metric's own range, or the data's; a diverging one is symmetric about zero.
Range RangeOf(const std::vector<HeadStatistics>& statistics, const MetricInfo& metric) {
  if (metric.maximum > metric.minimum) return {metric.minimum, metric.maximum};
  Range range{0, 0};
  bool first = true;
  for (const HeadStatistics& head : statistics) {
    const double value = MetricValue(head, metric.name);
    if (std::isnan(value)) continue;
    range = first ? Range{value, value} : Range{std::min(range.minimum, value), std::max(range.maximum, value)};
    first = false;
  }
  if (metric.diverging) {
    const double reach = std::max(std::fabs(range.minimum), std::fabs(range.maximum));
    return {-reach, reach};
  }
  return range;
}

std::string Tooltip(const HeadStatistics& head) {
  std::string text = "layer ";
  text += std::to_string(head.id.layer) + ", head " + std::to_string(head.id.head) + " (KV head " +
          std::to_string(head.kv_head) + ")\n" + HeadClassName(head.head_class) + ": " + head.class_reason;
  for (const MetricInfo& metric : Metrics()) {
    const double value = MetricValue(head, metric.name);
    if (!std::isnan(value))
      text += "\n" + metric.title + ": " + FormatNumber("%.4g", value) + (metric.unit.empty() ? "" : " " + metric.unit);
  }
  return text;
}

}  // namespace

std::string EscapeHtml(const std::string& text) {
  std::string escaped;
  for (const char character : PrintableLines(text)) {
    switch (character) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += character;
    }
  }
  return escaped;
}

std::string HeadMatrixSvg(const std::vector<HeadStatistics>& statistics, const MetricInfo& metric, int32_t cell_width,
                          int32_t cell_height, bool numbers) {
  std::set<int32_t> layers, heads;
  for (const HeadStatistics& head : statistics) {
    layers.insert(head.id.layer);
    heads.insert(head.id.head);
  }
  constexpr int32_t kLeft = 34, kTop = 20, kScaleHeight = 30;
  const int32_t width = kLeft + static_cast<int32_t>(heads.size()) * cell_width + 2;
  const int32_t map_height = kTop + static_cast<int32_t>(layers.size()) * cell_height;
  const Palette& palette = metric.diverging ? DivergingPalette() : SequentialPalette();
  const Range range = RangeOf(statistics, metric);
  const auto place = [](const std::set<int32_t>& all, int32_t value) {
    return static_cast<int32_t>(std::distance(all.begin(), all.find(value)));
  };
  const auto text = [](int32_t x, int32_t y, const char* css, const std::string& content,
                       const std::string& fill = "") {
    return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" class=\"" + css + "\"" +
           (fill.empty() ? "" : " fill=\"" + fill + "\"") + ">" + EscapeHtml(content) + "</text>";
  };

  std::string svg = "<svg width=\"" + std::to_string(width) + "\" height=\"" +
                    std::to_string(map_height + kScaleHeight) + "\" role=\"img\" aria-label=\"" +
                    EscapeHtml(metric.title) + " by layer and head\">\n";
  for (const int32_t head : heads)
    svg += text(kLeft + place(heads, head) * cell_width + cell_width / 2, kTop - 6, "mid", std::to_string(head));
  for (const int32_t layer : layers)
    svg +=
        text(kLeft - 6, kTop + place(layers, layer) * cell_height + cell_height / 2 + 4, "end", std::to_string(layer));
  for (const HeadStatistics& head : statistics) {
    const double value = MetricValue(head, metric.name);
    const int32_t x = kLeft + place(heads, head.id.head) * cell_width;
    const int32_t y = kTop + place(layers, head.id.layer) * cell_height;
    const double position = range.Place(value);
    svg += "<g><title>" + EscapeHtml(Tooltip(head)) + "</title><rect x=\"" + std::to_string(x) + "\" y=\"" +
           std::to_string(y) + "\" width=\"" + std::to_string(cell_width - 1) + "\" height=\"" +
           std::to_string(cell_height - 1) + "\" fill=\"" + (std::isnan(value) ? "none" : HexColor(palette, position)) +
           "\"/>";
    if (numbers && !std::isnan(value)) {
      // Black on the light part of the map, white on the dark part.
      const bool light = metric.diverging ? position > 0.15 && position < 0.85 : position > 0.55;
      svg += text(x + cell_width / 2, y + cell_height / 2 + 4, "cell", FormatNumber("%.2f", value),
                  light ? "#111" : "#fff");
    }
    svg += "</g>\n";
  }
  constexpr int32_t kSteps = 32;
  const int32_t bar_width = std::max(96, width - kLeft - 80) / kSteps * kSteps;
  for (int32_t step = 0; step < kSteps; ++step) {
    svg += "<rect x=\"" + std::to_string(kLeft + step * bar_width / kSteps) + "\" y=\"" +
           std::to_string(map_height + 6) + "\" width=\"" + std::to_string(bar_width / kSteps) +
           "\" height=\"8\" fill=\"" + HexColor(palette, (step + 0.5) / kSteps) + "\"/>";
  }
  svg += text(kLeft, map_height + 27, "start", FormatNumber("%.3g", range.minimum));
  svg += text(kLeft + bar_width, map_height + 27, "end",
              FormatNumber("%.3g", range.maximum) + (metric.unit.empty() ? "" : " " + metric.unit));
  return svg + "\n</svg>\n";
}

}  // namespace headscope::analysis
