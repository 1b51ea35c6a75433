// The parallel loop of every room: fresh threads, work handed out on demand, a flag that stops it.
//
// Threads are started per call (about 20 microseconds each) and nothing runs or waits between calls, so two callers
// never share a queue. Work starts in ascending order: a caller that numbers its longest pieces first gets
// longest-first scheduling. When the system gives no more threads, those that started share the work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace headscope::kernels {

inline bool IsCancelled(const std::atomic<bool>* cancelled) {
  return cancelled != nullptr && cancelled->load(std::memory_order_relaxed);
}

// Threads that a loop of `count` steps uses, at least 1; num_threads 0: all cores. Workers are numbered below it.
inline int32_t NumWorkers(int32_t num_threads, int64_t count) {
  const int64_t wanted = num_threads > 0 ? num_threads : static_cast<int64_t>(std::thread::hardware_concurrency());
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(wanted, count), 1, 1024));
}

// Calls body(begin, end, worker) until [0, count) is covered by chunks of at most `grain` (>= 1); worker <
// NumWorkers(num_threads, number of chunks). The flag is looked at before each chunk; false when it ended the loop
// early. The first exception that a body throws ends the loop and is rethrown here.
template <typename Body>
bool ParallelChunks(int64_t count, int64_t grain, int32_t num_threads, const std::atomic<bool>* cancelled,
                    Body&& body) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> stopped{false}, failed{false};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&](int32_t worker) {
    try {
      while (!failed.load(std::memory_order_relaxed)) {
        const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= count) return;
        if (IsCancelled(cancelled)) {
          stopped.store(true, std::memory_order_relaxed);
          return;
        }
        body(begin, std::min(begin + grain, count), worker);
      }
    } catch (...) {
      failed.store(true, std::memory_order_relaxed);
      const std::lock_guard lock(error_mutex);
      if (error == nullptr) error = std::current_exception();
    }
  };
  const int32_t num_workers = NumWorkers(num_threads, (count + grain - 1) / grain);
  std::vector<std::thread> threads;
  try {
    threads.reserve(static_cast<size_t>(num_workers - 1));
    for (int32_t worker = 1; worker < num_workers; ++worker) threads.emplace_back(work, worker);
  } catch (const std::exception&) {
    // No more threads, or no memory for them.
  }
  work(0);
  for (std::thread& thread : threads) thread.join();
  if (error != nullptr) std::rethrow_exception(error);
  return !stopped.load();
}

// The same index by index: body(index, worker).
template <typename Body>
bool ParallelFor(int64_t count, int32_t num_threads, const std::atomic<bool>* cancelled, Body&& body) {
  return ParallelChunks(count, 1, num_threads, cancelled,
                        [&](int64_t index, int64_t, int32_t worker) { body(index, worker); });
}

}  // namespace headscope::kernels
