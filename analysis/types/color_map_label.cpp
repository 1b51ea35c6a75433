// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/color_map_label.h"

#include <algorithm>

namespace headscope::analysis {
namespace {

// How light a colour looks: the luma of Rec. 709.
double Lightness(const Rgb& color) {
  return 0.2126 * color.red + 0.7152 * color.green + 0.0722 * color.blue;
}

bool IsEven(const Palette& palette) {
  constexpr double kRounding = 1;  // of channels to whole numbers
  const double way = Lightness(palette.back()) > Lightness(palette.front()) ? 1 : -1;
  return std::adjacent_find(palette.begin(), palette.end(), [way](const Rgb& one, const Rgb& next) {
           return way * (Lightness(next) - Lightness(one)) < -kRounding;
         }) == palette.end();
}

}  // namespace

std::string ColorMapLabel(const ColorMap& map) {
  const bool is_safe = map.kind == ColorMapKind::kDiverging || IsEven(map.palette);
  return is_safe ? map.name : map.name + " (not colour-blind safe)";
}

}  // namespace headscope::analysis
