// SPDX-License-Identifier: Apache-2.0
// Which passes over a head end, and which masses stay, when two maps show two heads.
#include "mass_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "base/errors.h"

namespace headscope::app {
namespace {

using ui::MapView;

// A head whose keys are all alike: its pass takes a moment at this length.
analysis::HeadTensorsPtr UniformHead(int32_t number, int64_t num_tokens) {
  auto head = std::make_shared<analysis::HeadTensors>();
  head->id = {0, number};
  head->num_tokens = head->num_rows = num_tokens;
  head->head_dim = 64;
  const auto values = static_cast<size_t>(num_tokens * head->head_dim);
  head->q.assign(values, 0.01f);
  head->k.assign(values, 0.01f);
  head->v.assign(values, 1.0f);
  const double score = 64 * 0.01 * 0.01 * static_cast<double>(head->scale);
  for (int64_t row = 0; row < num_tokens; ++row) {
    head->row_positions.push_back(static_cast<int32_t>(row));
    head->lse.push_back(static_cast<float>(score + std::log(static_cast<double>(row + 1))));
  }
  return head;
}

class MassCacheTest : public ::testing::Test {
 protected:
  const std::shared_ptr<ui::MemoryBudget> budget_ = std::make_shared<ui::MemoryBudget>(1);
  MassCache cache_{budget_};
  const std::stop_token never_ = {};

  // A pass of `view` over the head on a thread of its own, as a worker makes it.
  std::jthread Begin(MapView view, const analysis::HeadTensorsPtr& head, MassCache::MassPtr* mass) {
    return std::jthread([=, this] {
      try {
        *mass = cache_.Get(view, head, never_);
      } catch (const CancelledError&) {
        *mass = nullptr;
      }
    });
  }
};

TEST_F(MassCacheTest, TwoMapsDoNotEndEachOthersPasses) {
  const auto one = UniformHead(0, 6000), other = UniformHead(1, 6000);
  MassCache::MassPtr first, second;
  {
    const std::jthread a = Begin(MapView::kFirst, one, &first);
    const std::jthread b = Begin(MapView::kSecond, other, &second);
  }
  EXPECT_NE(first, nullptr);
  EXPECT_NE(second, nullptr);
  EXPECT_EQ(cache_.Get(MapView::kFirst, one, never_), first) << "both stay, whatever the budget";
  EXPECT_EQ(cache_.Get(MapView::kSecond, other, never_), second);
}

TEST_F(MassCacheTest, AMassLeavesWithTheMapThatShowedIt) {
  const auto one = UniformHead(0, 600), other = UniformHead(1, 600);
  const std::weak_ptr<const analysis::HeadMass> first = cache_.Get(MapView::kFirst, one, never_);
  const std::weak_ptr<const analysis::HeadMass> second = cache_.Get(MapView::kSecond, other, never_);
  const auto push_out = [&] { budget_->Keep(std::make_shared<int>(), int64_t{1} << 40); };
  push_out();
  EXPECT_FALSE(first.expired());
  EXPECT_FALSE(second.expired());
  cache_.Leave(MapView::kSecond);
  push_out();
  EXPECT_FALSE(first.expired());
  EXPECT_TRUE(second.expired());
}

TEST_F(MassCacheTest, AnotherHeadOfTheSameMapEndsThePassBefore) {
  const auto slow = UniformHead(0, 30000), next = UniformHead(1, 64);
  MassCache::MassPtr ended = cache_.Get(MapView::kFirst, next, never_);
  {
    const std::jthread pass = Begin(MapView::kFirst, slow, &ended);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_NE(cache_.Get(MapView::kFirst, next, never_), nullptr);
  }
  EXPECT_EQ(ended, nullptr);
}

}  // namespace
}  // namespace headscope::app
