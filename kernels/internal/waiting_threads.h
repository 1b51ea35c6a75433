// SPDX-License-Identifier: Apache-2.0
// Threads that wait for the next piece of work, for loops too short to start threads for: a decode step takes tens of
// microseconds, and starting a thread as long.
//
// The threads belong to the process and are started when first wanted. After a loop they look for the next one for some
// 50 microseconds and then sleep; one that wakes too late finds the loop closed, and the caller has done its share, so
// a loop never waits for a thread that has not begun. One loop has them at a time: a caller that finds them taken (by
// another thread, or by the loop that it is itself a part of) starts threads of its own, as kernels/parallel.h does.
#pragma once

#include <cstdint>
#include <new>
#include <utility>

#include "kernels/parallel.h"
#include "kernels/run_options.h"
#include "kernels/status.h"
#include "kernels/stop_status.h"

namespace headscope::kernels::internal {

// Calls work(context, worker) on the calling thread, as worker 0, and on up to num_workers - 1 waiting threads, with
// numbers of their own below num_workers. Returns when all that began have ended, or false, with nothing called, when
// the threads are taken. `work` must not throw.
bool RunOnWaitingThreads(int32_t num_workers, void (*work)(void* context, int32_t worker), void* context);

// ParallelFor of internal/parallel_for.h on the threads that wait. Same bodies, same statuses.
template <typename Body>
Status ShortParallelFor(int64_t count, int64_t grain, const RunOptions& options, Body&& body) {
  try {
    ChunkQueue queue(count, grain, options.stop, body);
    const int32_t num_workers = queue.NumWorkers(options.num_threads);
    using Queue = decltype(queue);
    const auto work = [](void* context, int32_t worker) { static_cast<Queue*>(context)->Work(worker); };
    if (num_workers == 1) {
      queue.Work(0);
    } else if (!RunOnWaitingThreads(num_workers, work, &queue)) {
      WorkOnFreshThreads(num_workers, queue);
    }
    if (queue.Finish()) return {};
    return Stopped();
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "not enough memory for the working space of this problem"};
  }
}

}  // namespace headscope::kernels::internal
