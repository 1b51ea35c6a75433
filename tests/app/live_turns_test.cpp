// SPDX-License-Identifier: Apache-2.0
// One live run of a window is timed at a time, when the screen was waited for.
#include "live_turns.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace headscope::app {
namespace {

class LiveTurnsTest : public ::testing::Test {
 protected:
  void Ask(ui::MapView view) {
    turns_->Ask(
        {nullptr, view}, [this](std::function<void()> then) { screens_.push_back(std::move(then)); },
        [this, view](LiveTurns::Turn turn) {
          begun_.push_back(view);
          turn_ = std::move(turn);
        });
  }
  // The oldest wait for the screen is over.
  void Draw() {
    ASSERT_FALSE(screens_.empty());
    const std::function<void()> then = std::move(screens_.front());
    screens_.pop_front();
    then();
    RunPosted();
  }
  void EndTurn() {
    turn_.reset();
    RunPosted();
  }
  void RunPosted() {
    while (!posted_.empty()) {
      const std::function<void()> function = std::move(posted_.front());
      posted_.pop_front();
      function();
    }
  }

  std::deque<std::function<void()>> posted_, screens_;
  std::vector<ui::MapView> begun_;
  const std::shared_ptr<LiveTurns> turns_ =
      std::make_shared<LiveTurns>([this](std::function<void()> function) { posted_.push_back(std::move(function)); });
  LiveTurns::Turn turn_;
};

using enum ui::MapView;

TEST_F(LiveTurnsTest, OneBeginsWhenTheOneBeforeHasEndedAndTheScreenWasWaitedForAgain) {
  Ask(kFirst);
  Ask(kSecond);
  ASSERT_EQ(screens_.size(), 1u);
  EXPECT_TRUE(begun_.empty());
  Draw();
  EXPECT_EQ(begun_, std::vector{kFirst});
  EXPECT_TRUE(screens_.empty()) << "the second waits for the first, not beside it";
  EndTurn();
  ASSERT_EQ(screens_.size(), 1u);
  EXPECT_EQ(begun_, std::vector{kFirst});
  Draw();
  EXPECT_EQ(begun_, (std::vector{kFirst, kSecond}));
}

TEST_F(LiveTurnsTest, WhoLeavesIsNotCalledAndHoldsNobodyUp) {
  Ask(kFirst);
  Ask(kSecond);
  turns_->Leave({nullptr, kFirst});
  Draw();  // which was asked for before the second had come
  Draw();
  EXPECT_EQ(begun_, std::vector{kSecond});
  turns_->Leave({nullptr, kSecond});
  Ask(kThird);
  EXPECT_TRUE(screens_.empty()) << "what has left may still be at work";
  EndTurn();
  Draw();
  EXPECT_EQ(begun_, (std::vector{kSecond, kThird}));
}

// The step of a slider after the one that has waited: nothing of it may be drawn yet.
TEST_F(LiveTurnsTest, WhoAsksAnewWaitsForTheScreenAnew) {
  Ask(kFirst);
  turns_->Leave({nullptr, kFirst});
  Ask(kFirst);
  Draw();
  EXPECT_TRUE(begun_.empty());
  Draw();
  EXPECT_EQ(begun_, std::vector{kFirst});
}

TEST_F(LiveTurnsTest, AWaitThatTheWindowDropsHoldsNobodyUp) {
  Ask(kFirst);
  screens_.clear();
  RunPosted();
  Draw();
  EXPECT_EQ(begun_, std::vector{kFirst});
}

}  // namespace
}  // namespace headscope::app
