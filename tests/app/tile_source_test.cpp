// SPDX-License-Identifier: Apache-2.0
// One pass over a head makes what the requests of one turn ask for, maxima and means together, and nothing else.
#include "tile_source.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "support/idle_queue.h"
#include "synthetic_trace.h"

namespace headscope::app {
namespace {

using analysis::TileReduction;
using data::testing::ScratchFolder;

constexpr int64_t kNumTokens = 300;

std::string WriteSquareTrace(const ScratchFolder& folder) {
  const std::string path = folder.File("square.h5");
  data::testing::WriteTrace(path, data::testing::SmallLayout(ElementType::kFloat32, kNumTokens), kNumTokens, kNumTokens,
                            kNumTokens);
  return path;
}

class TileSourceTest : public ::testing::Test {
 protected:
  TileSourceTest() { source_.SetTrace(trace_); }

  analysis::TileKey Whole(analysis::HeadId head, TileReduction reduction) const {
    return {head, reduction, analysis::MaxLevel(kNumTokens, kNumTokens), 0, 0};
  }
  // Asks for the whole map of a head; `came_` has the turn in which it came.
  void Ask(analysis::HeadId head, TileReduction reduction) {
    source_.Request(Whole(head, reduction), 1, [this, head, reduction](const analysis::TilePtr& tile) {
      ASSERT_EQ(tile->key, Whole(head, reduction));
      ASSERT_EQ(came_.count(tile->key), 0u) << "once";
      came_[tile->key] = turn_;
    });
  }
  // Takes turns, as a window does, until nothing is under way.
  void RunTurns() {
    while (true) {
      std::unique_lock lock(mutex_);
      if (turns_.empty()) {
        lock.unlock();
        test::WaitIdle(&queue_);
        lock.lock();
        if (turns_.empty()) return;
      }
      const std::function<void()> function = std::move(turns_.front());
      turns_.pop_front();
      lock.unlock();
      ++turn_;
      function();
    }
  }

  const ScratchFolder folder_;
  const std::shared_ptr<ui::MemoryBudget> memory_ = std::make_shared<ui::MemoryBudget>(int64_t{1} << 30);
  const std::shared_ptr<OpenedTrace> trace_ = std::make_shared<OpenedTrace>(WriteSquareTrace(folder_), memory_);
  const analysis::HeadId first_ = trace_->summary.heads.at(0), second_ = trace_->summary.heads.at(1);
  std::mutex mutex_;
  std::deque<std::function<void()>> turns_;
  int turn_ = 0;
  std::map<analysis::TileKey, int> came_;
  std::vector<std::string> failures_;
  const TileSource::Post post_ = [this](std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    turns_.push_back(std::move(function));
  };
  analysis::TaskQueue queue_{1, post_};
  TileSource source_{ui::kMapViews[0], &queue_, memory_.get(), post_,
                     [this](const std::string& sentence) { failures_.push_back(sentence); }};
};

TEST_F(TileSourceTest, OnePassMakesBothReductionsThatOneTurnAsksFor) {
  Ask(first_, TileReduction::kMax);
  Ask(first_, TileReduction::kMean);
  RunTurns();
  ASSERT_EQ(came_.size(), 2u);
  EXPECT_EQ(came_[Whole(first_, TileReduction::kMax)], came_[Whole(first_, TileReduction::kMean)]);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(TileSourceTest, WhatIsNotAskedForIsNotMade) {
  Ask(first_, TileReduction::kMax);
  RunTurns();
  const int64_t maxima = memory_->used();
  Ask(first_, TileReduction::kMean);
  RunTurns();
  EXPECT_EQ(came_.size(), 2u);
  EXPECT_GT(memory_->used(), maxima) << "the means came by a pass of their own";
}

TEST_F(TileSourceTest, AHeadThatIsNotLookedAtAnyMoreIsNotBegun) {
  Ask(first_, TileReduction::kMax);
  Ask(second_, TileReduction::kMean);
  Ask(second_, TileReduction::kMax);
  RunTurns();
  EXPECT_EQ(came_.size(), 2u);
  EXPECT_EQ(came_.count(Whole(first_, TileReduction::kMax)), 0u);
  EXPECT_EQ(came_[Whole(second_, TileReduction::kMax)], came_[Whole(second_, TileReduction::kMean)]);
}

TEST_F(TileSourceTest, NoPassOfAClosedTraceBegins) {
  Ask(first_, TileReduction::kMax);
  source_.SetTrace(nullptr);
  RunTurns();
  EXPECT_TRUE(came_.empty());
  source_.SetTrace(trace_);
  Ask(first_, TileReduction::kMax);
  RunTurns();
  EXPECT_EQ(came_.size(), 1u);
}

}  // namespace
}  // namespace headscope::app
