// SPDX-License-Identifier: Apache-2.0
// What selectors are made of: sums of probabilities along columns and diagonals, and the choice of the largest.
#include "line_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>

#include "kept_sets.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

using testing::FreshSeed;
using testing::ProblemShape;
using testing::RandomProblem;
using testing::SquareShape;

TEST(LineSums, ConserveProbabilityInBothDirections) {
  std::mt19937 random(FreshSeed());
  ProblemShape shape = SquareShape(500, 2);
  shape.seq_q = 300;
  shape.first_position = 150;  // 50 keys are later than every query
  const RandomProblem data(shape, &random);
  const AttentionProblem problem = data.View();
  const PackedKeys keys = internal::PackVisibleKeys(problem, 0, 0);
  internal::LineProbe probe(problem, {});
  internal::LineSums sums;
  probe.Sum(keys, 0, 1, 172, 300, &sums);
  EXPECT_EQ(sums.columns.size(), 450u);
  EXPECT_NEAR(std::accumulate(sums.columns.begin(), sums.columns.end(), 0.0), 128, 1e-3);
  EXPECT_NEAR(std::accumulate(sums.slashes.begin(), sums.slashes.end(), 0.0), 128, 1e-3);
}

TEST(LineSums, AddUpOverPartsOfTheRows) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(200), &random);
  const AttentionProblem problem = data.View();
  const PackedKeys keys = internal::PackVisibleKeys(problem, 0, 0);
  internal::LineProbe probe(problem, {});
  internal::LineSums whole;
  internal::LineSums upper;
  internal::LineSums lower;
  probe.Sum(keys, 0, 0, 0, 200, &whole);
  probe.Sum(keys, 0, 0, 0, 77, &upper);
  probe.Sum(keys, 0, 0, 77, 200, &lower);
  // Sums of up to 200 fp32 numbers in two orders: each addition rounds by up to 2^-24 of what it has.
  const auto tolerance = [](float sum) { return 200 * 0x1p-24f * std::max(sum, 1.0f); };
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_NEAR(whole.columns[i], upper.columns[i] + lower.columns[i], tolerance(whole.columns[i]));
    EXPECT_NEAR(whole.slashes[i], upper.slashes[i] + lower.slashes[i], tolerance(whole.slashes[i]));
  }
}

// A short cut finds candidates first where k is much less than the number of scores: whatever these hold, the answer is
// that of sorting them all.
TEST(TopK, OfManyScoresIsThatOfSorting) {
  std::mt19937 random(FreshSeed());
  std::normal_distribution<float> normal;
  for (int turn = 0; turn < 300; ++turn) {
    const auto count = std::uniform_int_distribution<size_t>(1, turn % 10 == 0 ? 20000 : 2000)(random);
    const auto k = std::uniform_int_distribution<int64_t>(1, 130)(random);
    std::vector<float> scores(count);
    for (size_t i = 0; i < count; ++i) {
      const float x = normal(random);
      const float kinds[] = {x,
                             std::exp(8 * x),
                             std::round(x),
                             static_cast<float>(i),
                             -static_cast<float>(i),
                             0.0f,
                             x > 0 ? std::numeric_limits<float>::quiet_NaN() : x,
                             x > 2 ? x : -std::numeric_limits<float>::infinity(),
                             std::numeric_limits<float>::quiet_NaN()};
      scores[i] = kinds[static_cast<size_t>(turn) % std::size(kinds)];
    }
    const std::vector<int32_t> ranking = internal::Ranking(scores);
    std::vector<int32_t> expected(ranking.begin(), ranking.begin() + std::min<int64_t>(k, std::ssize(ranking)));
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(internal::TopK(scores, k), expected) << "turn " << turn << ", " << count << " scores, k " << k;
  }
}

TEST(TopK, RanksByScoreThenIndexAndNaNLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> scores = {nan, -1.0f, 0.0f, -0.0f, infinity, 2.0f, -infinity, 2.0f, -nan};
  EXPECT_THAT(internal::Ranking(scores), ::testing::ElementsAre(4, 5, 7, 2, 3, 1, 6, 0, 8));
  EXPECT_THAT(internal::TopK(scores, 2), ::testing::ElementsAre(4, 5));
  EXPECT_THAT(internal::TopK(scores, 4), ::testing::ElementsAre(2, 4, 5, 7));
  EXPECT_THAT(internal::TopK(scores, 0), ::testing::IsEmpty());
  EXPECT_EQ(internal::TopK(scores, 100).size(), 9u);
  EXPECT_THAT(internal::TopK({}, 3), ::testing::IsEmpty());
}

}  // namespace
}  // namespace headscope::kernels
