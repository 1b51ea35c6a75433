// SPDX-License-Identifier: Apache-2.0
// Long work that somebody asks to stop.
#pragma once

#include <stop_token>

#include "base/errors.h"

namespace headscope {

// Throws CancelledError when `stop` is requested. To be called often: it costs one load of an atomic.
inline void StopIfAsked(const std::stop_token& stop) {
  if (stop.stop_requested()) throw CancelledError("interrupted");
}

}  // namespace headscope
