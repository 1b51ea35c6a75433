// SPDX-License-Identifier: Apache-2.0
// How much memory this process takes for itself.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace headscope::gui_test {

// Bytes in memory that no file backs (proc(5): VmRSS would count libraries as well).
inline int64_t ResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "RssAnon:" && status >> kilobytes) return kilobytes * 1024;
  }
  ADD_FAILURE() << "/proc/self/status has no RssAnon";
  return 0;
}

}  // namespace headscope::gui_test
