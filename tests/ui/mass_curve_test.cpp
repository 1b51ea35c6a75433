// SPDX-License-Identifier: Apache-2.0
// The curve of the kept masses against looking at every query, and the target that is dragged across it.
#include "mass_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QDeadlineTimer>
#include <cmath>
#include <limits>
#include <random>

#include "state_fixture.h"

namespace headscope::ui {
namespace {

using ::testing::IsEmpty;

std::vector<float> RandomMasses(size_t count) {
  std::mt19937 random(7);
  std::vector<float> masses(count);
  for (float& mass : masses) mass = static_cast<float>(random() % 64) / 64;  // with equals
  return masses;
}

TEST(MassCurveTest, EveryQueryLiesUnderOneBinAndTheBinsSpanItsMass) {
  for (const size_t count : {1U, 2U, 99U, 100U, 101U, 1000U}) {
    const std::vector<float> masses = RandomMasses(count);
    for (const CurveOrder order : {CurveOrder::kByQuery, CurveOrder::kSorted}) {
      const std::vector<CurveBin> bins = MakeMassCurve(masses, order, 100);
      ASSERT_EQ(bins.size(), std::min<size_t>(count, 100));
      std::vector<float> in_order = masses;
      if (order == CurveOrder::kSorted) std::sort(in_order.begin(), in_order.end());
      int64_t next = 0;
      for (const CurveBin& bin : bins) {
        EXPECT_EQ(bin.begin, next);
        ASSERT_GT(bin.end, bin.begin);
        next = bin.end;
        const auto [least, most] = std::minmax_element(in_order.begin() + bin.begin, in_order.begin() + bin.end);
        EXPECT_EQ(bin.least, *least);
        EXPECT_EQ(bin.most, *most);
        EXPECT_EQ(masses[static_cast<size_t>(bin.worst)], bin.least);
        if (order == CurveOrder::kByQuery) {
          EXPECT_EQ(bin.worst, least - in_order.begin()) << "the first of equals";
        }
      }
      EXPECT_EQ(next, static_cast<int64_t>(count));
    }
  }
}

TEST(MassCurveTest, NoMassesGiveNoCurveAndNanCountsAsNothingKept) {
  EXPECT_THAT(MakeMassCurve({}, CurveOrder::kSorted, 100), IsEmpty());
  EXPECT_THAT(MakeMassCurve({0.5f}, CurveOrder::kSorted, 0), IsEmpty());
  const auto bins = MakeMassCurve({0.5f, std::numeric_limits<float>::quiet_NaN(), 0.25f}, CurveOrder::kSorted, 3);
  EXPECT_EQ(bins[0].worst, 1);
  EXPECT_EQ(bins[0].least, 0.0f);
  EXPECT_EQ(bins[2].worst, 0);
}

TEST(MassCurveTest, ATargetLiesOnItsGridAndBelowDenseAttention) {
  EXPECT_EQ(SnappedTarget(0.9512, false), 0.95);
  EXPECT_EQ(SnappedTarget(0.9512, true), 0.951);
  EXPECT_EQ(SnappedTarget(-3, false), 0.0);
  EXPECT_EQ(SnappedTarget(1, true), kGreatestMassTarget);
}

class AimTest : public testing::StateTest {
 protected:
  AimTest() {
    state_.heads.Select({0, 1});
    Settle();
  }
  // Long enough for a target at rest to be searched for, and its answer.
  void Settle() {
    QDeadlineTimer end(4 * RunQueue::kAimRestMs);
    while (!end.hasExpired()) {
      QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 10);
      workbench_.DeliverReplies();
    }
    QCoreApplication::processEvents();  // whatever became due while this thread was kept waiting
    workbench_.DeliverReplies();
  }
};

TEST_F(AimTest, TheParametersFollowADraggedTarget) {
  ASSERT_EQ(state_.queue.aim_kind(), RunQueue::AimKind::kSearch);
  const int masks = workbench_.num_mask_requests;
  for (const double target : {0.94, 0.92, 0.9}) state_.queue.Aim(target);
  EXPECT_EQ(state_.trial.target(), 0.9) << "the line is where it was dragged, at once";
  EXPECT_NE(Window(), testing::FakeWorkbench::kFoundWindow);
  Settle();
  EXPECT_EQ(workbench_.last_target, 0.9);
  EXPECT_EQ(Window(), testing::FakeWorkbench::kFoundWindow);
  EXPECT_GT(workbench_.num_mask_requests, masks) << "the curve is made anew";
  EXPECT_FALSE(state_.queue.searching());
}

TEST_F(AimTest, ASearchForATargetBeforeIsGivenUp) {
  state_.queue.Aim(0.9);
  QDeadlineTimer end(5000);
  while (!state_.queue.searching() && !end.hasExpired())
    QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 10);
  ASSERT_TRUE(state_.queue.searching());
  state_.queue.Aim(0.8);
  EXPECT_FALSE(state_.queue.searching());
  workbench_.DeliverReplies();  // of the first search
  EXPECT_NE(Window(), testing::FakeWorkbench::kFoundWindow) << "its answer is stale";
  Settle();
  EXPECT_EQ(workbench_.last_target, 0.8);
  EXPECT_EQ(Window(), testing::FakeWorkbench::kFoundWindow);
}

TEST_F(AimTest, AnUnreachableTargetIsSaidThereAndNoFailureOfTheWindow) {
  workbench_.target_out_of_reach = true;
  state_.queue.Aim(0.9);
  Settle();
  EXPECT_TRUE(state_.queue.aim_error().contains(QStringLiteral("out of reach")));
  EXPECT_TRUE(failed_.isEmpty());
  workbench_.target_out_of_reach = false;
  state_.queue.Aim(0.8);
  EXPECT_TRUE(state_.queue.aim_error().isEmpty());
  Settle();
  EXPECT_EQ(Window(), testing::FakeWorkbench::kFoundWindow);
}

TEST_F(AimTest, AnotherHeadIsNotSearchedForTheTargetOfTheOneBefore) {
  state_.queue.Aim(0.9);
  state_.heads.Select({0, 0});
  workbench_.last_target = 0;
  Settle();
  EXPECT_EQ(workbench_.last_target, 0);
}

TEST_F(AimTest, AMethodWithoutABudgetLetsTheLineMoveAlone) {
  ASSERT_TRUE(state_.trial.SelectMethod("newest"));
  Settle();
  ASSERT_EQ(state_.queue.aim_kind(), RunQueue::AimKind::kNothing);
  workbench_.last_target = 0;
  state_.queue.Aim(0.9);
  Settle();
  EXPECT_EQ(state_.trial.target(), 0.9);
  EXPECT_EQ(workbench_.last_target, 0);
}

}  // namespace
}  // namespace headscope::ui
