// SPDX-License-Identifier: Apache-2.0
// Drawing into an RGB image: rectangles and text.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/report.h"
#include "analysis/types/color_map.h"

namespace headscope::analysis {

class Drawing {
 public:
  Drawing(int32_t width, int32_t height, Rgb background);

  void SetPixel(int32_t x, int32_t y, Rgb color);  // outside: ignored
  void FillRectangle(int32_t x, int32_t y, int32_t width, int32_t height, Rgb color);
  // Upper left corner of the first glyph; every font pixel is scale x scale.
  void Text(int32_t x, int32_t y, const std::string& text, int32_t scale, Rgb color);
  // Reads upwards; (x, y) is the lower left corner of the turned text.
  void TextUpwards(int32_t x, int32_t y, const std::string& text, int32_t scale, Rgb color);
  static int32_t TextWidth(const std::string& text, int32_t scale);
  static int32_t TextHeight(int32_t scale);

  ImageRgb Take() { return std::move(image_); }

 private:
  ImageRgb image_;
};

}  // namespace headscope::analysis
