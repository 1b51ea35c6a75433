// SPDX-License-Identifier: Apache-2.0
// What tests say of times.
#pragma once

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>

namespace headscope {

// Processor time that the work takes, in seconds: other programs take the clock's.
inline double ProcessorSeconds(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Whether it holds once. For what other programs can break for a while but never bring about: they keep a core, its
// caches or its clock. What is slow by itself is so in every attempt. Of two times either may be the disturbed one:
// TakesLess compares those.
inline bool HoldsOnce(const std::function<bool()>& attempt, int attempts = 6) {
  for (int i = 0; i < attempts; ++i) {
    if (attempt()) return true;
  }
  return false;
}

// Whether the work takes less processor time than `factor` times the reference and `slack` seconds. The least of both
// counts: three attempts are made, and more while it does not hold.
inline bool TakesLess(const std::function<void()>& work, double factor, const std::function<void()>& reference,
                      double slack = 0, int attempts = 8) {
  double least = std::numeric_limits<double>::infinity(), least_reference = least;
  for (int i = 0; i < attempts; ++i) {
    least = std::min(least, ProcessorSeconds(work));
    least_reference = std::min(least_reference, ProcessorSeconds(reference));
    if (i >= 2 && least < factor * least_reference + slack) return true;
  }
  return false;
}

}  // namespace headscope
