// SPDX-License-Identifier: Apache-2.0
// Pieces of SVG text.
#pragma once

#include <array>
#include <cstdio>
#include <string>

#include "analysis/types/color_map.h"

namespace headscope::analysis {

inline std::string HexColor(Rgb color) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", color.red, color.green, color.blue);
  return text.data();
}

}  // namespace headscope::analysis
