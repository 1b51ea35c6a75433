// Palettes and the value scale of the heatmap. The fragment shader, the colour bar and the tests use the same
// functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace headscope::ui {

struct Rgb {
  uint8_t red = 0, green = 0, blue = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};
using Palette = std::array<Rgb, 256>;

// "viridis" first. All but "turbo" rise evenly in lightness, so that they survive grey printing and colour blindness.
const std::vector<std::string>& ColorMapNames();
// -1 for an unknown name.
int ColorMapIndex(const std::string& name);
const Palette& ColorMapPalette(int index);

// What of the probabilities the palette spans, as log2 p. Linear scales span [2^minimum, 2^maximum].
struct ValueRange {
  float minimum_log2 = -16;
  float maximum_log2 = 0;
  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

// Position on the palette in [0, 1] of a probability given as log2 p; values outside the range are clamped.
float ScalePosition(float log2_p, const ValueRange& range, bool logarithmic);
// The log2 p at a position: the inverse of ScalePosition inside the range.
float ScaleValue(float position, const ValueRange& range, bool logarithmic);

}  // namespace headscope::ui
