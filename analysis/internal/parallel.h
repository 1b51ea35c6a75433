// The parallel loop of this room: fresh threads per call, indices handed out on demand in ascending order, a flag that
// stops it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace headscope::analysis {

inline bool IsCancelled(const std::atomic<bool>* cancelled) {
  return cancelled != nullptr && cancelled->load(std::memory_order_relaxed);
}

// Threads that a loop of `count` steps uses; num_threads 0 means all cores.
inline int32_t NumWorkers(int32_t num_threads, int64_t count) {
  const int64_t wanted = num_threads > 0 ? num_threads : static_cast<int64_t>(std::thread::hardware_concurrency());
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(wanted, count), 1, 1024));
}

// Calls body(index, worker) for every index of [0, count), worker < NumWorkers(num_threads, count). Returns false when
// the flag stopped it early. The first exception that a body throws ends the loop and is rethrown here.
template <typename Body>
bool ParallelFor(int64_t count, int32_t num_threads, const std::atomic<bool>* cancelled, Body&& body) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> stopped{false};
  std::exception_ptr error;
  std::mutex error_mutex;
  auto work = [&](int32_t worker) {
    try {
      while (true) {
        const int64_t index = next.fetch_add(1, std::memory_order_relaxed);
        if (index >= count) return;
        if (IsCancelled(cancelled)) {
          stopped.store(true, std::memory_order_relaxed);
          return;
        }
        body(index, worker);
      }
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      const std::lock_guard lock(error_mutex);
      if (error == nullptr) error = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  const int32_t num_workers = NumWorkers(num_threads, count);
  threads.reserve(static_cast<size_t>(num_workers - 1));
  try {
    for (int32_t worker = 1; worker < num_workers; ++worker) threads.emplace_back(work, worker);
  } catch (const std::system_error&) {
    // The system gives no more threads: those that started share the work.
  }
  work(0);
  for (std::thread& thread : threads) thread.join();
  if (error != nullptr) std::rethrow_exception(error);
  return !stopped.load();
}

}  // namespace headscope::analysis
