// SPDX-License-Identifier: Apache-2.0
// Requests to stop: one that was made before anything began, and one in the middle of work.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <stop_token>
#include <thread>

namespace headscope {

inline std::stop_token StoppedToken() {
  std::stop_source source;
  source.request_stop();
  return source.get_token();
}

// Processor time that the work takes from a request to its end, in seconds: of up to ten tries that are each stopped a
// while after they began the second least, for one may have come just before the work looks. No more are made when two
// took less than `enough`. Work that is done before the request took none.
inline double SecondsToStop(const std::function<void(const std::stop_token&)>& work, std::chrono::milliseconds after,
                            double enough) {
  double least = 1e9, second = 1e9;
  for (int i = 0; i < 10 && second >= enough; ++i) {
    std::stop_source stop;
    std::atomic<std::clock_t> asked = 0;
    std::jthread asking([&] {
      std::this_thread::sleep_for(after);
      asked = std::clock();
      stop.request_stop();
    });
    work(stop.get_token());
    const std::clock_t ended = std::clock();
    asking.join();
    const double seconds = static_cast<double>(std::max<std::clock_t>(0, ended - asked)) / CLOCKS_PER_SEC;
    second = std::min(second, std::max(least, seconds));
    least = std::min(least, seconds);
  }
  return second;
}

}  // namespace headscope
