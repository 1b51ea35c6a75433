// A loop over independent items on several threads, for preparing data (never inside a timed run).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace headscope::app::bench {

// num_threads 0: all cores. `body` must not throw.
inline void ForEachInParallel(int64_t count, int32_t num_threads, const std::function<void(int64_t)>& body) {
  const auto cores = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t workers = std::min(count, num_threads > 0 ? int64_t{num_threads} : cores);
  std::atomic<int64_t> next{0};
  std::vector<std::jthread> threads;
  for (int64_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&] {
      for (int64_t i = next++; i < count; i = next++) body(i);
    });
  }
}

}  // namespace headscope::app::bench
