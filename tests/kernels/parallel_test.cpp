// SPDX-License-Identifier: Apache-2.0
#include "kernels/parallel.h"

#include <gtest/gtest.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <atomic>
#include <chrono>
#include <new>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "internal/parallel_for.h"
#include "internal/waiting_threads.h"
#include "kernels/start_cores.h"
#include "support/stopped.h"

namespace headscope::kernels {
namespace {

TEST(ParallelChunks, CoversEverythingOnce) {
  for (const int64_t count : {0, 1, 7, 64, 1000}) {
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
      const int32_t workers = NumWorkers(4, (count + grain - 1) / grain);
      std::atomic<bool> fits{true};
      EXPECT_TRUE(ParallelChunks(count, grain, 4, {}, [&](int64_t begin, int64_t end, int32_t worker) {
        if (begin % grain != 0 || end - begin > grain || worker < 0 || worker >= workers) fits = false;
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      }));
      EXPECT_TRUE(fits) << count << " by " << grain;
      for (const std::atomic<int>& visit : visits) EXPECT_EQ(visit, 1) << count << " by " << grain;
    }
  }
}

TEST(ParallelChunks, CountsIn64Bits) {
  constexpr int64_t kGrain = int64_t{1} << 33;
  std::atomic<int64_t> covered{0};
  EXPECT_TRUE(ParallelChunks(5 * kGrain - 1, kGrain, 2, {},
                             [&](int64_t begin, int64_t end, int32_t) { covered += end - begin; }));
  EXPECT_EQ(covered, 5 * kGrain - 1);
}

#ifdef __linux__

cpu_set_t AllowedCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  EXPECT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  return cores;
}

// Threads that began on their maker's core stayed there for all of a short loop, which then had one core of two.
TEST(ParallelFor, WorkersBeginOnCoresOfTheirOwnAndAreNotHeldThere) {
  const cpu_set_t allowed = AllowedCores();
  const int32_t num_cores = CPU_COUNT(&allowed);
  if (num_cores < 2) GTEST_SKIP() << "one core";
  constexpr int kLoops = 100;
  int apart = 0;  // workers that began on a core that none before them had
  for (int loop = 0; loop < kLoops; ++loop) {
    std::vector<std::atomic<int>> began(static_cast<size_t>(num_cores));
    std::atomic<int32_t> inside{0};
    std::atomic<bool> held{false}, late{false};
    // The caller's as it is asked before its threads are made: what comes later may have moved it.
    const int own = sched_getcpu();
    ParallelFor(num_cores, num_cores, {}, [&](int64_t, int32_t worker) {
      began[static_cast<size_t>(worker)] = worker == 0 ? own : sched_getcpu();
      const cpu_set_t mine = AllowedCores();
      if (!CPU_EQUAL(&mine, &allowed)) held = true;
      // Each worker has one step: who is done waits for the others to begin, but not for threads that the system
      // refuses.
      ++inside;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (inside < num_cores && !late) {
        std::this_thread::yield();
        if (std::chrono::steady_clock::now() > until) late = true;
      }
    });
    EXPECT_FALSE(held);
    if (late) GTEST_SKIP() << "the system gives no " << num_cores << " threads at once";
    apart += static_cast<int>(std::set<int>(began.begin(), began.end()).size()) - 1;
  }
  // Of two cores none began apart without this. Between two looks another program may move a thread, or the caller.
  EXPECT_GE(apart, kLoops * (num_cores - 1) / 2);
}

TEST(StartCores, ATakenCoreIsThatOfTheWorkerAndTheOthersStayAllowed) {
  const cpu_set_t allowed = AllowedCores();
  const int32_t num_cores = CPU_COUNT(&allowed);
  if (num_cores < 2) GTEST_SKIP() << "one core";
  constexpr int kTries = 100;
  int taken = 0;
  for (int i = 0; i < kTries; ++i) {
    const StartCores start(num_cores);
    std::thread([&] {
      start.Take(1);
      // Between the two another program may move it.
      taken += sched_getcpu() == start.CoreOf(1) ? 1 : 0;
      const cpu_set_t mine = AllowedCores();
      EXPECT_TRUE(CPU_EQUAL(&mine, &allowed));
    }).join();
  }
  EXPECT_GE(taken, kTries / 2);
}

TEST(NumAllowedCores, AreThoseOfTheThread) {
  const cpu_set_t allowed = AllowedCores();
  EXPECT_EQ(NumAllowedCores(), CPU_COUNT(&allowed));
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(NumAllowedCores(), 1);
  }).join();
}

TEST(StartCores, AreOneForEachWorkerWhereThereAreAsManyCores) {
  const cpu_set_t allowed = AllowedCores();
  const int32_t num_cores = CPU_COUNT(&allowed);
  std::set<int> cores;
  const StartCores start(num_cores);
  for (int32_t worker = 1; worker < num_cores; ++worker) {
    EXPECT_TRUE(CPU_ISSET(static_cast<size_t>(start.CoreOf(worker)), &allowed));
    cores.insert(start.CoreOf(worker));
  }
  EXPECT_EQ(cores.size(), static_cast<size_t>(num_cores - 1));
  EXPECT_EQ(start.CoreOf(num_cores), -1) << "there is no core left";
  EXPECT_EQ(StartCores(num_cores + 1).CoreOf(1), -1) << "more workers than cores";
  EXPECT_EQ(StartCores(1).CoreOf(1), -1);
}

#endif  // __linux__

TEST(ParallelFor, StopsWhenTheFlagIsRaised) {
  std::stop_source stop;
  std::atomic<int> calls{0};
  EXPECT_FALSE(ParallelFor(1'000'000, 2, stop.get_token(), [&](int64_t, int32_t) {
    if (++calls == 10) stop.request_stop();
  }));
  EXPECT_LT(calls, 100'000);
  EXPECT_FALSE(
      ParallelFor(5, 1, stop.get_token(), [](int64_t, int32_t) { FAIL() << "requested before the first step"; }));
}

TEST(ParallelFor, ThrowsOnWhatABodyThrowsWhenAllThreadsHaveEnded) {
  std::atomic<int> inside{0};
  try {
    ParallelFor(1'000'000, 4, {}, [&](int64_t index, int32_t) {
      ++inside;
      --inside;
      if (index == 100) throw std::runtime_error("step 100");
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), std::string("step 100"));
  }
  EXPECT_EQ(inside, 0);
}

TEST(ParallelForStatus, TellsCancellationAndMemoryApart) {
  const std::stop_token stopped = StoppedToken();
  const auto nothing = [](int64_t, int64_t, int32_t) {};
  EXPECT_TRUE(internal::ParallelFor(10, 2, {2, {}}, nothing).ok());
  EXPECT_EQ(internal::ParallelFor(10, 2, {2, stopped}, nothing).code(), StatusCode::kCancelled);
  const auto hungry = [](int64_t, int64_t, int32_t) { throw std::bad_alloc(); };
  EXPECT_EQ(internal::ParallelFor(10, 2, {2, {}}, hungry).code(), StatusCode::kOutOfMemory);
}

TEST(ShortParallelFor, CoversEverythingOnceLoopAfterLoop) {
  for (int loop = 0; loop < 2000; ++loop) {
    const int64_t count = loop % 50;
    std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
    std::atomic<bool> fits{true};
    const RunOptions options{.num_threads = 1 + loop % 4};
    const auto visit = [&](int64_t begin, int64_t end, int32_t worker) {
      if (worker < 0 || worker >= internal::NumWorkers(options, (count + 2) / 3)) fits = false;
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    };
    ASSERT_TRUE(internal::ShortParallelFor(count, 3, options, visit).ok());
    ASSERT_TRUE(fits);
    for (const std::atomic<int>& one : visits) ASSERT_EQ(one, 1) << "loop " << loop;
    // Now and then longer than the threads look for work: they sleep and have to be woken.
    if (loop % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// Threads were started for every decode step, 20 microseconds each. Whoever runs a chunk does not end with its loop.
TEST(ShortParallelFor, LoopsShareTheirThreads) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  const auto note = [&](int64_t, int64_t, int32_t) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  };
  for (int loop = 0; loop < 50; ++loop) ASSERT_TRUE(internal::ShortParallelFor(16, 1, {.num_threads = 2}, note).ok());
  // Those of the whole process: what another test of this file started may take a turn.
  EXPECT_LE(ids.size(), 5u);
}

TEST(ShortParallelFor, CallersAtOnceAndLoopsInsideLoopsGetThreadsOfTheirOwn) {
  std::atomic<int64_t> sum{0};
  const auto caller = [&] {
    for (int loop = 0; loop < 20; ++loop) {
      const auto inner = [&](int64_t begin, int64_t end, int32_t) { sum += end - begin; };
      const auto outer = [&](int64_t, int64_t, int32_t) {
        EXPECT_TRUE(internal::ShortParallelFor(7, 2, {.num_threads = 2}, inner).ok());
      };
      EXPECT_TRUE(internal::ShortParallelFor(5, 1, {.num_threads = 3}, outer).ok());
    }
  };
  std::thread other(caller), third(caller);
  caller();
  other.join();
  third.join();
  EXPECT_EQ(sum, 3 * 20 * 5 * 7);
}

TEST(ShortParallelFor, TellsCancellationAndMemoryApart) {
  const std::stop_token stopped = StoppedToken();
  const auto nothing = [](int64_t, int64_t, int32_t) {};
  EXPECT_TRUE(internal::ShortParallelFor(10, 1, {2, {}}, nothing).ok());
  EXPECT_EQ(internal::ShortParallelFor(10, 1, {2, stopped}, nothing).code(), StatusCode::kCancelled);
  const auto hungry = [](int64_t, int64_t, int32_t) { throw std::bad_alloc(); };
  EXPECT_EQ(internal::ShortParallelFor(10, 1, {2, {}}, hungry).code(), StatusCode::kOutOfMemory);
}

}  // namespace
}  // namespace headscope::kernels
