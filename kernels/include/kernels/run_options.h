// SPDX-License-Identifier: Apache-2.0
// How a selector or executor runs on the CPU.
#pragma once

#include <atomic>
#include <cstdint>

namespace headscope::kernels {

struct RunOptions {
  int32_t num_threads = 0;  // 0: all cores
  const std::atomic<bool>* cancelled =
      nullptr;  // looked at between row tiles; kCancelled is returned soon after it turns true
};

}  // namespace headscope::kernels
