// SPDX-License-Identifier: Apache-2.0
// One budget over several caches: what is counted, what leaves first, what stays.
#include "ui/memory_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace headscope::ui {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kBlock = 100 * kMiB;  // counted, not allocated

std::shared_ptr<const int> Value(int value) {
  return std::make_shared<const int>(value);
}

// A cache as the window's are: weak pointers, and the budget owns what they point at.
struct Cache {
  MemoryBudget* budget;
  std::vector<std::weak_ptr<const int>> values{};
  void Add(int value, int64_t bytes) {
    const std::shared_ptr<const int> made = Value(value);
    budget->Keep(made, bytes);
    values.emplace_back(made);
  }
  bool Holds(size_t i) const { return !values[i].expired(); }
};

TEST(MemoryBudget, TheLeastRecentlyUsedLeavesWhateverCacheItIsIn) {
  MemoryBudget budget(3 * kBlock);
  Cache heads{&budget}, tiles{&budget};
  heads.Add(0, kBlock);
  tiles.Add(0, kBlock);
  heads.Add(1, kBlock);
  EXPECT_EQ(budget.used(), 3 * kBlock);
  EXPECT_NE(budget.Find(heads.values[0], kBlock), nullptr) << "a use";
  tiles.Add(1, kBlock);
  EXPECT_TRUE(heads.Holds(0));
  EXPECT_FALSE(tiles.Holds(0)) << "used longest ago";
  EXPECT_TRUE(heads.Holds(1));
  budget.Use(heads.values[1].lock().get());
  tiles.Add(2, kBlock);
  EXPECT_FALSE(heads.Holds(0));
  EXPECT_TRUE(heads.Holds(1));
  EXPECT_EQ(budget.used(), 3 * kBlock);
}

// Told when it is freed, and not while the budget is locked.
TEST(MemoryBudget, SaysWhenSoMuchHasLeft) {
  MemoryBudget budget(2 * kBlock);
  Cache cache{&budget};
  int calls = 0;
  bool freed = false;
  budget.CallWhenLeft(2 * kBlock, [&] {
    ++calls;
    freed = !cache.Holds(1) && budget.used() <= budget.capacity();
  });
  for (int i = 0; i < 3; ++i) cache.Add(i, kBlock);
  EXPECT_EQ(calls, 0) << "one has left";
  cache.Add(3, kBlock);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(freed);
  cache.Add(4, kBlock);
  EXPECT_EQ(calls, 1) << "counted from the last time";
  budget.Release(cache.values[4].lock().get());
  EXPECT_EQ(calls, 2) << "so does what is released";
  budget.HoldReleased();
  for (int i = 5; i < 7; ++i) cache.Add(i, kBlock);
  EXPECT_EQ(calls, 2);
  for (int i = 5; i < 7; ++i) budget.Release(cache.values[static_cast<size_t>(i)].lock().get());
  EXPECT_EQ(calls, 2) << "what is held has not been freed";
  budget.TakeReleased();
}

TEST(MemoryBudget, NeverExceedsItsCapacityWhateverIsKept) {
  MemoryBudget budget(1000 * kMiB);
  Cache cache{&budget};
  for (int i = 0; i < 500; ++i) {
    cache.Add(i, (i % 37 + 1) * kMiB);
    ASSERT_LE(budget.used(), budget.capacity()) << i;
  }
  int64_t held = 0;
  for (size_t i = 0; i < cache.values.size(); ++i) held += cache.Holds(i) ? static_cast<int64_t>(i % 37 + 1) * kMiB : 0;
  EXPECT_EQ(held, budget.used()) << "what is counted is what is there";
  budget.SetCapacity(300 * kMiB);
  EXPECT_LE(budget.used(), 300 * kMiB) << "a smaller one holds at once";
  EXPECT_GT(budget.used(), 200 * kMiB);
}

TEST(MemoryBudget, WhatIsOnShowStaysAndLeavesRoomForAView) {
  MemoryBudget budget(2 * kBlock);
  Cache cache{&budget};
  cache.Add(0, 5 * kBlock);
  budget.Pin(cache.values[0].lock().get(), true);
  for (int i = 1; i < 10; ++i) cache.Add(i, kMiB);
  for (size_t i = 0; i < 10; ++i) EXPECT_TRUE(cache.Holds(i)) << i;
  for (int i = 10; i < 400; ++i) cache.Add(i, kMiB);
  EXPECT_TRUE(cache.Holds(0));
  EXPECT_FALSE(cache.Holds(1));
  EXPECT_EQ(budget.used(), 5 * kBlock + MemoryBudget::kLeastUnpinnedBytes);
  budget.Pin(cache.values[0].lock().get(), false);
  cache.Add(400, kMiB);
  EXPECT_FALSE(cache.Holds(0));
  EXPECT_LE(budget.used(), budget.capacity());
}

TEST(MemoryBudget, WhatCannotLeaveCountsAndPushesOthersOut) {
  MemoryBudget budget(4 * kBlock);
  Cache cache{&budget};
  for (int i = 0; i < 4; ++i) cache.Add(i, kBlock);
  const int statistics = 0;
  budget.SetFixed(&statistics, 2 * kBlock);
  EXPECT_EQ(budget.used(), 4 * kBlock);
  EXPECT_FALSE(cache.Holds(1));
  EXPECT_TRUE(cache.Holds(2));
  budget.SetFixed(&statistics, 0);
  EXPECT_EQ(budget.used(), 2 * kBlock);
}

TEST(MemoryBudget, AValueInUseOutlivesItsPlaceAndIsTakenBack) {
  MemoryBudget budget(kBlock);
  const std::shared_ptr<const int> in_use = Value(7);
  budget.Keep(in_use, kBlock);
  Cache cache{&budget};
  cache.Add(8, kBlock);
  const std::weak_ptr<const int> remembered = in_use;
  EXPECT_EQ(budget.Find(remembered, kBlock), in_use) << "not made twice";
  EXPECT_FALSE(cache.Holds(0));
  budget.Release(in_use.get());
  EXPECT_EQ(budget.used(), 0);
  EXPECT_EQ(in_use.use_count(), 1);
}

TEST(MemoryBudget, DefaultsToAShareOfTheMachine) {
  EXPECT_GE(MemoryBudget::DefaultBytes(), MemoryBudget::kLeastBytes);
  EXPECT_EQ(MemoryBudget().capacity(), MemoryBudget::DefaultBytes());
}

TEST(MemoryBudget, ThreadsShareIt) {
  MemoryBudget budget(50 * kMiB);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget, t] {
      std::vector<std::weak_ptr<const int>> mine;
      for (int i = 0; i < 500; ++i) {
        const auto value = Value(t);
        budget.Keep(value, kMiB);
        mine.emplace_back(value);
        budget.Find(mine[static_cast<size_t>(i) / 2], kMiB);
      }
    });
  }
  threads.clear();
  EXPECT_LE(budget.used(), budget.capacity());
}

TEST(MemoryBudgetTest, WhatIsReleasedIsHeldForAnotherThreadToFree) {
  MemoryBudget budget(1000);
  auto first = std::make_shared<const int>(1), second = std::make_shared<const int>(2);
  const std::weak_ptr<const int> first_seen = first, second_seen = second;
  const void *const first_place = first.get(), *const second_place = second.get();
  budget.Keep(std::exchange(first, nullptr), 400);
  budget.Keep(std::exchange(second, nullptr), 400);
  budget.HoldReleased();
  budget.Release(first_place);
  EXPECT_EQ(budget.used(), 400);
  EXPECT_FALSE(first_seen.expired());
  std::shared_ptr<void> released = budget.TakeReleased();
  EXPECT_FALSE(first_seen.expired());
  released.reset();
  EXPECT_TRUE(first_seen.expired());
  budget.Release(second_place);
  EXPECT_TRUE(second_seen.expired()) << "at once again";
  EXPECT_EQ(budget.used(), 0);
}

}  // namespace
}  // namespace headscope::ui
