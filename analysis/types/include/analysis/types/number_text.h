// SPDX-License-Identifier: Apache-2.0
// Numbers as text, and printf's formats as a string.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace headscope::analysis {

// printf's text, as long as it gets.
template <typename... Values>
std::string Format(const char* format, Values... values) {
  const int size = std::snprintf(nullptr, 0, format, values...);
  std::string text(static_cast<size_t>(size), '\0');
  std::snprintf(text.data(), text.size() + 1, format, values...);  // the string has room for the terminating zero
  return text;
}

inline double WithoutNegativeZero(double value) {
  return value == 0 ? 0.0 : value;
}

// `format` has one conversion, of a double: "%.2f", "%.3g %%". What rounds to zero has no sign.
inline std::string FormatNumber(const char* format, double value) {
  std::string text = Format(format, value);
  const bool is_zero = std::isfinite(value) && text.find_first_of("123456789") == std::string::npos;
  return is_zero && std::signbit(value) ? FormatNumber(format, 0.0) : text;
}

// "4,090"
inline std::string Grouped(int64_t count) {
  std::string digits = std::to_string(count);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

// The shortest text that reads back as the same number.
inline std::string ShortestNumber(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), WithoutNegativeZero(value)).ptr};
}

}  // namespace headscope::analysis
