// SPDX-License-Identifier: Apache-2.0
// When memory that was freed goes back to the system: never beside what is measured.
#include "free_pages.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <semaphore>

namespace headscope::app {
namespace {

using std::chrono::milliseconds;
constexpr std::chrono::seconds kLong(20);
constexpr milliseconds kMoment(50), kNever = std::chrono::hours(1);

class FreePagesTest : public testing::Test {
 protected:
  std::shared_ptr<MeasuringGate> gate_ = std::make_shared<MeasuringGate>();
  StatisticsJob job_{[](const std::function<void()>& call) { call(); }, gate_};
  std::counting_semaphore<> returned_{0};
};

TEST_F(FreePagesTest, WaitsUntilNothingIsMeasured) {
  PageReturner returner(
      gate_, [this] { returned_.release(); }, kNever);
  returner.Ask();
  ASSERT_TRUE(returned_.try_acquire_for(kLong));
  {
    const PauseStatistics measured(job_);
    returner.Ask();
    EXPECT_FALSE(returned_.try_acquire_for(kMoment));
  }
  EXPECT_TRUE(returned_.try_acquire_for(kLong));
  EXPECT_FALSE(returned_.try_acquire_for(kMoment)) << "once";
}

TEST_F(FreePagesTest, OnceMoreForWhatWasStillInUse) {
  PageReturner returner(
      gate_, [this] { returned_.release(); }, kMoment);
  returner.Ask();
  EXPECT_TRUE(returned_.try_acquire_for(kLong));
  EXPECT_TRUE(returned_.try_acquire_for(kLong));
  EXPECT_FALSE(returned_.try_acquire_for(2 * kMoment));
}

TEST_F(FreePagesTest, WhatIsMeasuredBeginsBehindIt) {
  std::latch may_end(1);
  const auto return_slowly = [&] {
    returned_.release();
    may_end.wait();
  };
  PageReturner returner(gate_, return_slowly, kNever);
  returner.Ask();
  ASSERT_TRUE(returned_.try_acquire_for(kLong));
  auto paused = std::async(std::launch::async, [this] { const PauseStatistics measured(job_); });
  EXPECT_EQ(paused.wait_for(kMoment), std::future_status::timeout);
  may_end.count_down();
  EXPECT_EQ(paused.wait_for(kLong), std::future_status::ready);
}

TEST_F(FreePagesTest, EndsWhileItWaits) {
  const PauseStatistics measured(job_);
  PageReturner returner(gate_, [this] { returned_.release(); });
  returner.Ask();
  EXPECT_FALSE(returned_.try_acquire_for(kMoment));
}

TEST_F(FreePagesTest, IsAskedWhenEnoughHasLeftTheBudget) {
  ui::MemoryBudget memory(ui::MemoryBudget::kLeastUnpinnedBytes);
  const auto keep_another = [&memory] { memory.Keep(std::make_shared<const int>(1), kLeftBeforeReturn); };
  {
    const auto returner = ReturnWhatLeaves(&memory, gate_, [this] { returned_.release(); });
    for (int i = 0; i < 4; ++i) keep_another();  // there is room
    EXPECT_FALSE(returned_.try_acquire_for(kMoment));
    keep_another();
    EXPECT_TRUE(returned_.try_acquire_for(kLong));
  }
  while (returned_.try_acquire()) {
  }
  for (int i = 0; i < 2; ++i) keep_another();  // nobody is there to be asked
  EXPECT_FALSE(returned_.try_acquire_for(kMoment));
}

}  // namespace
}  // namespace headscope::app
