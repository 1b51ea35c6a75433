// SPDX-License-Identifier: Apache-2.0
#include "report/drawing.h"

#include "report/bitmap_font.h"

namespace headscope::analysis {
namespace {

// draw(row, column) for every font pixel of the character's glyph that has ink.
template <typename Draw>
void ForEachInk(char character, Draw&& draw) {
  const auto& rows = Glyph(character);
  for (int32_t row = 0; row < kGlyphHeight; ++row) {
    for (int32_t column = 0; column < kGlyphWidth; ++column) {
      if ((rows[static_cast<size_t>(row)] >> (kGlyphWidth - 1 - column) & 1) != 0) draw(row, column);
    }
  }
}

}  // namespace

Drawing::Drawing(int32_t width, int32_t height, Rgb background) {
  image_.width = width;
  image_.height = height;
  image_.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  FillRectangle(0, 0, width, height, background);
}

void Drawing::SetPixel(int32_t x, int32_t y, Rgb color) {
  if (x < 0 || y < 0 || x >= image_.width || y >= image_.height) return;
  const size_t place = (static_cast<size_t>(y) * static_cast<size_t>(image_.width) + static_cast<size_t>(x)) * 3;
  image_.rgb[place] = color.red;
  image_.rgb[place + 1] = color.green;
  image_.rgb[place + 2] = color.blue;
}

void Drawing::FillRectangle(int32_t x, int32_t y, int32_t width, int32_t height, Rgb color) {
  for (int32_t row = y; row < y + height; ++row) {
    for (int32_t column = x; column < x + width; ++column) SetPixel(column, row, color);
  }
}

void Drawing::Text(int32_t x, int32_t y, const std::string& text, int32_t scale, Rgb color) {
  for (const char character : text) {
    ForEachInk(character, [&](int32_t row, int32_t column) {
      FillRectangle(x + column * scale, y + row * scale, scale, scale, color);
    });
    x += kGlyphAdvance * scale;
  }
}

void Drawing::TextUpwards(int32_t x, int32_t y, const std::string& text, int32_t scale, Rgb color) {
  for (const char character : text) {
    ForEachInk(character, [&](int32_t row, int32_t column) {
      FillRectangle(x + row * scale, y - (column + 1) * scale, scale, scale, color);
    });
    y -= kGlyphAdvance * scale;
  }
}

int32_t Drawing::TextWidth(const std::string& text, int32_t scale) {
  return static_cast<int32_t>(text.size()) * kGlyphAdvance * scale;
}

int32_t Drawing::TextHeight(int32_t scale) {
  return kGlyphHeight * scale;
}

}  // namespace headscope::analysis
