// SPDX-License-Identifier: Apache-2.0
// How a selector or executor runs on the CPU.
#pragma once

#include <cstdint>
#include <stop_token>

namespace headscope::kernels {

struct RunOptions {
  int32_t num_threads = 0;    // 0: all cores
  std::stop_token stop = {};  // looked at between row tiles; kCancelled is returned soon after a request to stop
};

}  // namespace headscope::kernels
