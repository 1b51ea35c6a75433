// SPDX-License-Identifier: Apache-2.0
// Threads that want one head at the same time: it is read once, and a head that cannot be read is refused to each.
#include "head_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <limits>
#include <thread>
#include <vector>

#include "base/errors.h"
#include "synthetic_trace.h"

namespace headscope::app {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr analysis::HeadId kGood{0, 0}, kOther{0, 1}, kBad{0, 2};
constexpr int64_t kNumTokens = 20000;  // takes a while to read, so that threads meet

// Three heads with a KV head each; the last one's last value is an infinity.
std::string WriteThreeHeads(const data::testing::ScratchFolder& folder) {
  data::TraceLayout layout = data::testing::SmallLayout(ElementType::kFloat32, kNumTokens);
  layout.layers = {0};
  layout.model.num_qo_heads = layout.model.num_kv_heads = 3;
  layout.facts = {data::UsualFacts(layout.model)};
  layout.row_selection = "last:1";
  std::vector<data::TokenRecord> tokens;
  for (int64_t i = 0; i < kNumTokens; ++i) tokens.push_back(data::testing::TokenAt(i, kNumTokens));
  const auto values = static_cast<size_t>(3 * kNumTokens * layout.model.head_dim);
  const std::vector<float> k(values, 0.5f), lse(3, 1.0f);
  std::vector<float> v = k;
  v.back() = std::numeric_limits<float>::infinity();
  const int32_t last_row[] = {static_cast<int32_t>(kNumTokens - 1)};
  const std::string path = folder.File("three_heads.h5");
  data::TraceWriter writer(path, layout, false);
  writer.AppendTokens(tokens);
  writer.AppendRowPositions(last_row);
  writer.Append({.layer_slot = 0,
                 .first_token = 0,
                 .num_tokens = kNumTokens,
                 .first_row = 0,
                 .num_rows = 1,
                 .q = k.data(),
                 .k = k.data(),
                 .v = v.data(),
                 .lse = lse.data()});
  writer.Finish();
  return path;
}

// ask(i) on eight threads at once.
template <typename Ask>
void AtOnce(Ask&& ask) {
  constexpr int kThreads = 8;
  std::latch start(kThreads);
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      ask(i);
    });
  }
}

class HeadCacheTest : public ::testing::Test {
 protected:
  const data::testing::ScratchFolder folder_;
  const data::TraceReader trace_{WriteThreeHeads(folder_)};
  HeadCache cache_{trace_, std::make_shared<ui::MemoryBudget>(int64_t{1} << 30)};
};

TEST_F(HeadCacheTest, AHeadIsReadOnceForAllWhoWaitForIt) {
  std::vector<analysis::HeadTensorsPtr> heads(8);
  EXPECT_EQ(cache_.TryGet(kGood), nullptr);
  AtOnce([&](size_t i) { heads[i] = cache_.Get(kGood); });
  EXPECT_NE(heads[0], nullptr);
  EXPECT_THAT(heads, Each(heads[0]));
  EXPECT_EQ(cache_.TryGet(kGood), heads[0]);
}

TEST_F(HeadCacheTest, EveryThreadIsToldWhyAHeadCannotBeReadAndTheNextOneTriesAgain) {
  for (int round = 0; round < 5; ++round) {
    std::vector<std::string> said(8);
    AtOnce([&](size_t i) {
      try {
        cache_.Get(kBad);
      } catch (const BadInputError& refused) {  // whoever read it
        said[i] = refused.what();
      }
    });
    EXPECT_THAT(said, Each(AllOf(HasSubstr(trace_.path()), HasSubstr("v of head 0:2"), HasSubstr("not finite"))));
    EXPECT_EQ(cache_.TryGet(kBad), nullptr);
  }
}

TEST_F(HeadCacheTest, AHeadBeyondTheCapacityLeavesWhenAnotherComes) {
  HeadCache small(trace_, std::make_shared<ui::MemoryBudget>(1));
  const std::weak_ptr<const analysis::HeadTensors> first = small.Get(kGood);
  EXPECT_NE(small.TryGet(kGood), nullptr) << "the newest stays whatever its size";
  EXPECT_NE(small.Get(kOther), nullptr);
  EXPECT_EQ(small.TryGet(kGood), nullptr);
  EXPECT_TRUE(first.expired());
  EXPECT_NE(small.TryGet(kOther), nullptr);
}

TEST_F(HeadCacheTest, WhatAMapShowsStaysAndWhatElseWasReadLeaves) {
  const auto budget = std::make_shared<ui::MemoryBudget>(1);
  HeadCache cache(trace_, budget);
  // Something larger than the whole budget takes the place of all that may leave.
  const auto push_out = [&] { budget->Keep(std::make_shared<int>(), int64_t{1} << 40); };
  EXPECT_NE(cache.Show(ui::MapView::kFirst, kGood), nullptr);
  EXPECT_NE(cache.Get(kOther), nullptr);
  push_out();
  EXPECT_NE(cache.TryGet(kGood), nullptr);
  EXPECT_EQ(cache.TryGet(kOther), nullptr);
  // Both maps show it, then one, then none.
  EXPECT_NE(cache.Show(ui::MapView::kSecond, kGood), nullptr);
  EXPECT_NE(cache.Show(ui::MapView::kFirst, kOther), nullptr);
  push_out();
  EXPECT_NE(cache.TryGet(kGood), nullptr);
  cache.Leave(ui::MapView::kSecond);
  push_out();
  EXPECT_EQ(cache.TryGet(kGood), nullptr);
  EXPECT_NE(cache.TryGet(kOther), nullptr);
}

TEST_F(HeadCacheTest, AHeadThatCannotBeReadPushesNoneOut) {
  HeadCache small(trace_, std::make_shared<ui::MemoryBudget>(1));
  const analysis::HeadTensorsPtr first = small.Get(kGood);
  EXPECT_THROW(small.Get(kBad), BadInputError);
  EXPECT_EQ(small.TryGet(kGood), first);
}

}  // namespace
}  // namespace headscope::app
