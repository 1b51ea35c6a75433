// SPDX-License-Identifier: Apache-2.0
// Where the threads of a loop begin: each on a core of its own.
//
// Linux starts a thread on the core of the one that makes it wherever no other is idle at that moment, and may leave
// both there for longer than a short loop takes: of two cores that a window draws on, dense attention of 4,096 tokens
// then took 7 ms or 15, from one call to the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>
#ifdef __linux__
#include <sched.h>
#endif

namespace headscope::kernels {

// Cores that the calling thread may run on, at least 1. In a container, or under taskset, these are fewer than the
// machine's, which is what the standard library counts.
inline int32_t NumAllowedCores() {
#ifdef __linux__
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) return CPU_COUNT(&allowed);
#endif
  // Asked once: the answer may be read from a file of the system, which takes as long as a short loop.
  static const auto cores = static_cast<int32_t>(std::max(1U, std::thread::hardware_concurrency()));
  return cores;
}

#ifdef __linux__

// Of a loop that has as many workers as the calling thread has cores. One with fewer finds idle ones by itself, and the
// places that are best for it are not known here.
class StartCores {
 public:
  explicit StartCores(int32_t num_workers) {
    if (num_workers < 2 || sched_getaffinity(0, sizeof(allowed_), &allowed_) != 0) return;
    spreads_ = CPU_COUNT(&allowed_) == num_workers;
    own_ = sched_getcpu();
  }

  // The core that worker 1 or more begins on; -1: wherever the system has it.
  int CoreOf(int32_t worker) const {
    for (int core = 0; spreads_ && core < CPU_SETSIZE; ++core) {
      if (core != own_ && CPU_ISSET(static_cast<size_t>(core), &allowed_) && --worker == 0) return core;
    }
    return -1;
  }

  // Moves the calling thread, which is that worker's and was made by the one that made this, to its core. It may be
  // moved on from there as any other thread. Where the system refuses, it stays; where the cores allowed change in
  // between, it may run on all that are left.
  void Take(int32_t worker) const {
    const int core = CoreOf(worker);
    if (core < 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(core), &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) return;
    if (sched_setaffinity(0, sizeof(allowed_), &allowed_) == 0) return;
    cpu_set_t all;
    CPU_ZERO(&all);
    for (size_t any = 0; any < CPU_SETSIZE; ++any) CPU_SET(any, &all);
    static_cast<void>(sched_setaffinity(0, sizeof(all), &all));  // the system takes the allowed ones of these
  }

 private:
  cpu_set_t allowed_{};
  bool spreads_ = false;
  int own_ = -1;
};

#else

class StartCores {
 public:
  explicit StartCores(int32_t) {}
  void Take(int32_t) const {}
};

#endif

}  // namespace headscope::kernels
