// SPDX-License-Identifier: Apache-2.0
// The palettes of maps and metrics: one table for the canvas, the matrix, pictures and the report.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace headscope::analysis {

struct Rgb {  // sRGB
  uint8_t red = 0, green = 0, blue = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};
using Palette = std::array<Rgb, 256>;

enum class ColorMapKind {
  kSequential,  // from little to much
  kDiverging,   // blue below, neutral at the middle, red above: for signed values
};

struct ColorMap {
  std::string name;
  ColorMapKind kind = ColorMapKind::kSequential;
  Palette palette;
};

// "viridis" first, sequential ones before diverging ones. All sequential ones but "turbo" rise evenly in lightness
// ("ink" falls), so that they survive grey printing and colour blindness.
const std::vector<ColorMap>& ColorMaps();
// nullptr for an unknown name.
const ColorMap* FindColorMap(const std::string& name);
// The colours of values without and with a sign, wherever the reader has no choice.
const Palette& SequentialPalette();
const Palette& DivergingPalette();

// The entry nearest to a place in [0, 1]; clamped, and NaN is 0.
Rgb ColorAt(const Palette& palette, double place);

}  // namespace headscope::analysis
