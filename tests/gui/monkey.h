// SPDX-License-Identifier: Apache-2.0
// How long the monkey plays.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace headscope::gui_test {

inline int& MonkeySeconds() {
  static int seconds = 8;  // the short form of the suite
  return seconds;
}

// Takes --seconds N out of the arguments.
inline void ReadMonkeySeconds(int* argc, char** argv) {
  for (int i = 1; i + 1 < *argc; ++i) {
    if (std::string_view(argv[i]) != "--seconds") continue;
    MonkeySeconds() = std::max(1, std::atoi(argv[i + 1]));
    std::copy(argv + i + 2, argv + *argc, argv + i);
    *argc -= 2;
    return;
  }
}

}  // namespace headscope::gui_test
