// SPDX-License-Identifier: Apache-2.0
// What a fuzz target holds its reader to: libFuzzer keeps the input of a program that aborts.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace headscope::testing {

inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

inline void RequireOneSentence(std::string_view refusal) {
  Require(refusal.find('\n') == std::string_view::npos, "not one sentence");
}

}  // namespace headscope::testing
