// SPDX-License-Identifier: Apache-2.0
// How long work takes by a clock that nothing sets back. What GPUs do has a clock of theirs (kernels/cuda_resources.h).
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace headscope {

// Runs from where it is made.
class Stopwatch {
 public:
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double Milliseconds() const { return std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point start_ = Clock::now();
};

template <typename Work>
double SecondsOf(Work&& work) {
  const Stopwatch watch;
  std::forward<Work>(work)();
  return watch.Seconds();
}

// The fastest of `runs`, one or more: what else the machine does only makes a run slower.
template <typename Work>
double FastestSecondsOf(int runs, Work&& work) {
  double fastest = SecondsOf(work);
  for (int run = 1; run < runs; ++run) fastest = std::min(fastest, SecondsOf(work));
  return fastest;
}

}  // namespace headscope
