// What memory gives at best: the ceiling of kernels that read much and reckon little, such as a decode step.
#pragma once

#include <cstdint>

#include "kernels/run_options.h"
#include "kernels/status.h"

namespace headscope::kernels {

// Reads `bytes` from `data` on, each once, on the threads of `options`, and does nothing else. *parity: the exclusive
// or of all whole 64-bit words, so that no word can be left out. How fast depends on where the bytes lie: whoever
// compares a kernel with it reads as many bytes, from as far away. `data` is aligned to 8 bytes.
Status ReadCpu(const void* data, int64_t bytes, const RunOptions& options, uint64_t* parity);

}  // namespace headscope::kernels
