// A number as text, by a format of printf's.
#pragma once

#include <cstdio>
#include <string>

namespace headscope::analysis {

// `format` has one conversion, of a double: "%.2f", "%.3g %%".
inline std::string FormatNumber(const char* format, double value) {
  const int size = std::snprintf(nullptr, 0, format, value);
  std::string text(static_cast<size_t>(size), '\0');
  std::snprintf(text.data(), text.size() + 1, format, value);  // the string has room for the terminating zero
  return text;
}

}  // namespace headscope::analysis
