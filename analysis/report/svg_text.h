// SPDX-License-Identifier: Apache-2.0
// Pieces of SVG text.
#pragma once

#include <array>
#include <cmath>
#include <cstdio>
#include <string>

#include "analysis/types/color_map.h"
#include "analysis/types/number_text.h"

namespace headscope::analysis {

inline std::string HexColor(Rgb color) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", color.red, color.green, color.blue);
  return text.data();
}

// ` name="value"`, in steps of 1 / parts.
inline std::string SvgAttribute(const char* name, double value, double parts) {
  return std::string(" ") + name + "=\"" + ShortestNumber(std::round(parts * value) / parts) + "\"";
}

}  // namespace headscope::analysis
