// A parallel loop for the kernels room: fresh threads, chunks handed out on demand, a flag that stops it.
//
// Threads are started per call (about 20 microseconds each): the room keeps no pool, so nothing runs or waits between
// calls and two callers never share a queue. Bodies may allocate: an exhausted memory becomes a Status, as kernels
// never throw.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <thread>
#include <vector>

#include "kernels/method.h"
#include "kernels/status.h"

namespace headscope::kernels::internal {

// Threads that a loop of `count` chunks starts under `options`, at least 1. Workers are numbered below this.
inline int32_t NumWorkers(const RunOptions& options, int64_t count) {
  int64_t threads =
      options.num_threads > 0 ? options.num_threads : static_cast<int64_t>(std::thread::hardware_concurrency());
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(threads, count), 1, 1024));
}

// Calls body(begin, end, worker) until [0, count) is covered by chunks of at most `grain` (>= 1). Chunks start in
// ascending order, so a caller that numbers its longest work first gets longest-first scheduling. The flag of `options`
// is looked at before each chunk. Errors: kCancelled, kOutOfMemory; the loop then ended early.
template <typename Body>
Status ParallelFor(int64_t count, int64_t grain, const RunOptions& options, Body&& body) {
  if (count <= 0) return {};
  std::atomic<int64_t> next{0};
  std::atomic<bool> cancelled{false};
  std::atomic<bool> out_of_memory{false};
  auto work = [&](int32_t worker) {
    try {
      while (!out_of_memory.load(std::memory_order_relaxed)) {
        const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= count) return;
        if (options.cancelled != nullptr && options.cancelled->load(std::memory_order_relaxed)) {
          cancelled.store(true, std::memory_order_relaxed);
          return;
        }
        body(begin, std::min(begin + grain, count), worker);
      }
    } catch (const std::bad_alloc&) {
      out_of_memory.store(true, std::memory_order_relaxed);
    }
  };

  const int32_t workers = NumWorkers(options, (count + grain - 1) / grain);
  std::vector<std::thread> threads;
  try {
    threads.reserve(static_cast<size_t>(workers - 1));
    for (int32_t worker = 1; worker < workers; ++worker) threads.emplace_back(work, worker);
  } catch (const std::exception&) {
    // The system gives no more threads (or no memory for them): those that started share the work.
  }
  work(0);
  for (std::thread& thread : threads) thread.join();
  if (out_of_memory.load())
    return {StatusCode::kOutOfMemory, "not enough memory for the working space of this problem"};
  if (cancelled.load()) return {StatusCode::kCancelled, "cancelled"};
  return {};
}

}  // namespace headscope::kernels::internal
