// SPDX-License-Identifier: Apache-2.0
// The parallel loop of every room: fresh threads, work handed out on demand, a token that stops it.
//
// Threads are started per call (about 20 microseconds each; kernels/internal/waiting_threads.h is for loops that take
// no longer) and nothing runs or waits between calls, so two callers never share a queue. Work starts in ascending
// order: a caller that numbers its longest pieces first gets longest-first scheduling. When the system gives no more
// threads, those that started share the work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "kernels/start_cores.h"

namespace headscope::kernels {

// Threads that a loop of `count` steps uses, at least 1; num_threads 0: as many as the calling thread has cores.
// Workers are numbered below it.
inline int32_t NumWorkers(int32_t num_threads, int64_t count) {
  const int64_t wanted = num_threads > 0 ? num_threads : NumAllowedCores();
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(wanted, count), 1, 1024));
}

// The chunks of [0, count), of at most `grain` (>= 1) each, and how a loop over them ended. The token is looked
// at before each chunk; it and the first exception that a body throws end the loop.
template <typename Body>
class ChunkQueue {
 public:
  ChunkQueue(int64_t count, int64_t grain, const std::stop_token& stop, Body& body)
      : count_(count), grain_(grain), stop_(stop), body_(body) {}

  int32_t NumWorkers(int32_t num_threads) const {
    return kernels::NumWorkers(num_threads, (count_ + grain_ - 1) / grain_);
  }

  // One worker's part, chunk by chunk until there are none. Never throws.
  void Work(int32_t worker) {
    try {
      while (!failed_.load(std::memory_order_relaxed)) {
        const int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
        if (begin >= count_) return;
        if (stop_.stop_requested()) {
          ended_early_.store(true, std::memory_order_relaxed);
          return;
        }
        body_(begin, std::min(begin + grain_, count_), worker);
      }
    } catch (...) {
      failed_.store(true, std::memory_order_relaxed);
      const std::lock_guard lock(error_mutex_);
      if (error_ == nullptr) error_ = std::current_exception();
    }
  }

  // When all workers have returned: whether everything was covered; rethrows what a body threw.
  bool Finish() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
    return !ended_early_.load();
  }

 private:
  const int64_t count_;
  const int64_t grain_;
  const std::stop_token& stop_;
  Body& body_;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> ended_early_{false}, failed_{false};
  std::exception_ptr error_;
  std::mutex error_mutex_;
};

// Works on the queue with the calling thread and num_workers - 1 others, started here, each on a core of its own where
// there are as many.
template <typename Body>
void WorkOnFreshThreads(int32_t num_workers, ChunkQueue<Body>& queue) {
  const StartCores cores(num_workers);
  std::vector<std::thread> threads;
  try {
    threads.reserve(static_cast<size_t>(num_workers - 1));
    for (int32_t worker = 1; worker < num_workers; ++worker) {
      threads.emplace_back([&queue, &cores, worker] {
        cores.Take(worker);
        queue.Work(worker);
      });
    }
  } catch (const std::exception&) {
    // No more threads, or no memory for them.
  }
  queue.Work(0);
  for (std::thread& thread : threads) thread.join();
}

// Calls body(begin, end, worker) until [0, count) is covered by chunks of at most `grain` (>= 1); worker <
// NumWorkers(num_threads, number of chunks). The token is looked at before each chunk; false when it ended the
// loop early. The first exception that a body throws ends the loop and is rethrown here.
template <typename Body>
bool ParallelChunks(int64_t count, int64_t grain, int32_t num_threads, const std::stop_token& stop, Body&& body) {
  ChunkQueue queue(count, grain, stop, body);
  WorkOnFreshThreads(queue.NumWorkers(num_threads), queue);
  return queue.Finish();
}

// The same index by index: body(index, worker).
template <typename Body>
bool ParallelFor(int64_t count, int32_t num_threads, const std::stop_token& stop, Body&& body) {
  return ParallelChunks(count, 1, num_threads, stop,
                        [&](int64_t index, int64_t, int32_t worker) { body(index, worker); });
}

}  // namespace headscope::kernels
