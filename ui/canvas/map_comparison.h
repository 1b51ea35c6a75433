// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace headscope::ui {

// What a map shows of itself and of another map.
enum class Comparison : uint8_t {
  kNone,    // of itself alone
  kMasks,   // what either method keeps alone, and both: of two methods on one head
  kValues,  // the probability there less the one here: of two heads whose maps have the same queries and keys
};

}  // namespace headscope::ui
