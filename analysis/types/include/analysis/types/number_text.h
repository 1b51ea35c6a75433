// SPDX-License-Identifier: Apache-2.0
// Numbers as text.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>

namespace headscope::analysis {

inline double WithoutNegativeZero(double value) {
  return value == 0 ? 0.0 : value;
}

// `format` has one conversion, of a double: "%.2f", "%.3g %%". What rounds to zero has no sign.
inline std::string FormatNumber(const char* format, double value) {
  const int size = std::snprintf(nullptr, 0, format, value);
  std::string text(static_cast<size_t>(size), '\0');
  std::snprintf(text.data(), text.size() + 1, format, value);  // the string has room for the terminating zero
  const bool is_zero = std::isfinite(value) && text.find_first_of("123456789") == std::string::npos;
  return is_zero && std::signbit(value) ? FormatNumber(format, 0.0) : text;
}

// The shortest text that reads back as the same number.
inline std::string ShortestNumber(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), WithoutNegativeZero(value)).ptr};
}

}  // namespace headscope::analysis
