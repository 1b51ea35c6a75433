#include "kernels/parallel.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

#include "internal/parallel_for.h"

namespace headscope::kernels {
namespace {

TEST(ParallelChunks, CoversEverythingOnce) {
  for (const int64_t count : {0, 1, 7, 64, 1000}) {
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
      const int32_t workers = NumWorkers(4, (count + grain - 1) / grain);
      std::atomic<bool> fits{true};
      EXPECT_TRUE(ParallelChunks(count, grain, 4, nullptr, [&](int64_t begin, int64_t end, int32_t worker) {
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
  EXPECT_TRUE(ParallelChunks(5 * kGrain - 1, kGrain, 2, nullptr,
                             [&](int64_t begin, int64_t end, int32_t) { covered += end - begin; }));
  EXPECT_EQ(covered, 5 * kGrain - 1);
}

TEST(ParallelFor, StopsWhenTheFlagIsRaised) {
  std::atomic<bool> cancelled{false};
  std::atomic<int> calls{0};
  EXPECT_FALSE(ParallelFor(1'000'000, 2, &cancelled, [&](int64_t, int32_t) {
    if (++calls == 10) cancelled = true;
  }));
  EXPECT_LT(calls, 100'000);
  EXPECT_FALSE(ParallelFor(5, 1, &cancelled, [](int64_t, int32_t) { FAIL() << "raised before the first step"; }));
}

TEST(ParallelFor, ThrowsOnWhatABodyThrowsWhenAllThreadsHaveEnded) {
  std::atomic<int> inside{0};
  try {
    ParallelFor(1'000'000, 4, nullptr, [&](int64_t index, int32_t) {
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
  std::atomic<bool> cancelled{true};
  const auto nothing = [](int64_t, int64_t, int32_t) {};
  EXPECT_TRUE(internal::ParallelFor(10, 2, {2, nullptr}, nothing).ok());
  EXPECT_EQ(internal::ParallelFor(10, 2, {2, &cancelled}, nothing).code(), StatusCode::kCancelled);
  const auto hungry = [](int64_t, int64_t, int32_t) { throw std::bad_alloc(); };
  EXPECT_EQ(internal::ParallelFor(10, 2, {2, nullptr}, hungry).code(), StatusCode::kOutOfMemory);
}

}  // namespace
}  // namespace headscope::kernels
