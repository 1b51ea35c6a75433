// SPDX-License-Identifier: Apache-2.0
// printf's formats as a string, for texts of a line.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace headscope::ui {

// What is longer than 255 bytes is cut there.
template <typename... Arguments>
std::string Format(const char* format, Arguments... arguments) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, arguments...);
  return text.data();
}

}  // namespace headscope::ui
