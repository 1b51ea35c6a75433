// SPDX-License-Identifier: Apache-2.0
// The parallel loop with this room's options and statuses: kernels never throw.
#pragma once

#include <cstdint>
#include <new>

#include "kernels/parallel.h"
#include "kernels/run_options.h"
#include "kernels/status.h"
#include "kernels/stop_status.h"

namespace headscope::kernels::internal {

// Threads that a loop of `count` chunks starts under `options`.
inline int32_t NumWorkers(const RunOptions& options, int64_t count) {
  return kernels::NumWorkers(options.num_threads, count);
}

// ParallelChunks under `options`. Bodies may allocate. Errors: kCancelled, kOutOfMemory; the loop then ended early.
template <typename Body>
Status ParallelFor(int64_t count, int64_t grain, const RunOptions& options, Body&& body) {
  try {
    if (ParallelChunks(count, grain, options.num_threads, options.stop, body)) return {};
    return Stopped();
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "not enough memory for the working space of this problem"};
  }
}

}  // namespace headscope::kernels::internal
