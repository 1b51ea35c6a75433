// SPDX-License-Identifier: Apache-2.0
// What memory gives at best: the ceiling of kernels that read much and reckon little, such as a decode step.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/run_options.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Reads `bytes` from each of `places` on, each once, in one loop on the threads of `options`, and does nothing else.
// *parity: the exclusive or of all whole 64-bit words, so that no word can be left out. How fast depends on where the
// bytes lie: whoever compares a kernel with it reads as many bytes, from as far away. Places are aligned to 8 bytes.
Status ReadCpu(std::span<const void* const> places, int64_t bytes, const RunOptions& options, uint64_t* parity);
inline Status ReadCpu(const void* place, int64_t bytes, const RunOptions& options, uint64_t* parity) {
  return ReadCpu({&place, 1}, bytes, options, parity);
}

}  // namespace headscope::kernels
