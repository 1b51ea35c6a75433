// SPDX-License-Identifier: Apache-2.0
// What a comparison of two maps says of itself, in a corner of the map: whose colours are whose, and how much it is.
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/types/map_words.h"
#include "kept_text.h"
#include "map_overlay.h"
#include "overlay_drawing.h"

namespace headscope::ui {

namespace {

constexpr double kSwatch = 11, kPadding = 5;       // pixels
constexpr analysis::Rgb kNotCompared{72, 72, 72};  // about what the shader makes of colours that it takes away
constexpr size_t kContinued = std::numeric_limits<size_t>::max();

std::string MethodTitle(const CanvasModel& model) {
  const kernels::MethodSpec* const spec = model.trial().method();
  return spec == nullptr ? std::string("no method") : spec->title;
}

}  // namespace

std::vector<std::string> ComparisonTexts(const CanvasModel& model) {
  switch (model.comparison()) {
    case Comparison::kMasks: {
      const auto texts = analysis::DescribeOverlap(MethodTitle(model), MethodTitle(*model.other()), model.overlap());
      return {texts.begin(), texts.end()};
    }
    case Comparison::kValues: {
      const analysis::HeadId here = *model.head(), there = *model.other()->head();
      const auto name = [](analysis::HeadId head) {
        return std::to_string(head.layer) + ":" + std::to_string(head.head);
      };
      std::vector<std::string> texts = {"2 (" + name(there) + ") more", "1 (" + name(here) + ") more"};
      if (const CanvasModel::ComparedPart part = model.Compared(); part.is_shorter) {
        texts.push_back("not compared: traces of " + Grouped(model.trace().num_tokens) + " and " +
                        Grouped(model.other()->trace().num_tokens) + " tokens have the first " +
                        Grouped(part.num_rows) + (part.num_rows == 1 ? " query" : " queries") + " in common");
      }
      return texts;
    }
    case Comparison::kNone:
      break;
  }
  if (const std::string why = model.WhyNotCompared(); !why.empty()) return {why};
  return {};
}

void DrawComparison(const CanvasModel& model, const OverlayOptions& options) {
  const std::vector<std::string> texts = ComparisonTexts(model);
  if (texts.empty()) return;
  const Comparison comparison = model.comparison();
  const analysis::Palette& signed_colors = analysis::DivergingPalette();
  const double line = ImGui::GetFontSize() + 3;
  const double swatch = comparison == Comparison::kNone ? 0 : kSwatch + kPadding;
  const PixelRect& map = options.view->viewport();
  std::vector<std::pair<size_t, std::string>> lines;  // with the number of its text, if it begins one
  for (size_t i = 0; i < texts.size(); ++i) {
    size_t number = i;
    for (std::string& part : WrappedLines(texts[i], map.width - swatch - 2 * kPadding - 8))
      lines.emplace_back(std::exchange(number, kContinued), std::move(part));
  }
  double width = 0;
  for (const auto& [number, part] : lines) width = std::max(width, static_cast<double>(TextSize(part).x));
  const double height = line * static_cast<double>(lines.size()) + 2 * kPadding;
  // Above the name of the map, which is above the count of tiles on the way.
  const PixelRect box{map.right() - width - swatch - 2 * kPadding - 4, map.bottom() - 58 - height,
                      width + swatch + 2 * kPadding, height};
  ImDrawList* const list = ImGui::GetBackgroundDrawList();
  list->AddRectFilled(Point(box.x, box.y), Point(box.right(), box.bottom()), IM_COL32(20, 20, 20, 225), 3);
  double y = box.y + kPadding;
  for (const auto& [i, part] : lines) {
    if (comparison != Comparison::kNone && i != kContinued) {
      const analysis::Rgb color = comparison == Comparison::kMasks ? analysis::kKeptByColors.at(i)
                                  : i == 0                         ? signed_colors.back()
                                  : i == 1                         ? signed_colors.front()
                                                                   : kNotCompared;
      list->AddRectFilled(Point(box.x + kPadding, y + 2), Point(box.x + kPadding + kSwatch, y + 2 + kSwatch),
                          InkOf(color));
    }
    DrawText(list, box.x + kPadding + swatch, y, kTextColor, part);
    y += line;
  }
}

}  // namespace headscope::ui
