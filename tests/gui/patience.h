// SPDX-License-Identifier: Apache-2.0
// How long a test of the window waits.
#pragma once

#include <QtGlobal>
#include <algorithm>

namespace headscope::gui_test {

// Times as long as in an optimised build: more than 1 under a sanitizer (headscope_test_limit in
// cmake/HeadscopeRoom.cmake).
inline int Patience() {
  return std::max(1, qEnvironmentVariableIntValue("HEADSCOPE_TEST_PATIENCE"));
}

}  // namespace headscope::gui_test
