// SPDX-License-Identifier: Apache-2.0
// Long work that somebody asks to stop, by a std::stop_token. It ends in one way: CancelledError, which takes whatever
// was half made with it. What stands although the rest was stopped (a shorter trace, the repeats that were measured)
// its maker keeps by catching it. kernels/, which throws nothing, says the same by kernels::Stopped().
#pragma once

#include <stop_token>

#include "base/errors.h"

namespace headscope {

[[noreturn]] inline void ThrowStopped() {
  throw CancelledError("interrupted");
}

// Throws when `stop` is requested. To be called often: it costs one load of an atomic.
inline void StopIfAsked(const std::stop_token& stop) {
  if (stop.stop_requested()) ThrowStopped();
}

// Throws when a loop that a stop token may end (kernels::ParallelFor) says that it was ended.
inline void StopUnless(bool finished) {
  if (!finished) ThrowStopped();
}

}  // namespace headscope
