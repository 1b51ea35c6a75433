// SPDX-License-Identifier: Apache-2.0
// The vector code under selectors that look at every row, against plain loops.
#include "internal/row_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "internal/bfloat16_scores.h"
#include "kernels/narrow_floats.h"
#include "run_seed.h"

namespace headscope::kernels::internal {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Shares(size_t count, std::mt19937* random) {
  std::lognormal_distribution<float> share(-6, 2);
  std::vector<float> shares(count);
  for (float& one : shares) one = share(*random);
  return shares;
}

TEST(RowMath, WeighsScoresOfBase2) {
  std::mt19937 random(testing::RunSeed());
  std::normal_distribution<float> score(0, 20);
  for (const size_t count : {1u, 15u, 16u, 17u, 63u, 64u, 65u, 1001u}) {
    std::vector<float> row(count);
    for (float& one : row) one = score(random);
    if (count > 20) row[3] = -std::numeric_limits<float>::infinity();
    const float maximum = *std::ranges::max_element(row);
    std::vector<float> weights = row;
    const float sum = WeightsOfBase2(weights.data(), static_cast<int64_t>(count));
    double expected_sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const double expected = std::exp2(static_cast<double>(row[i]) - static_cast<double>(maximum));
      expected_sum += expected;
      // Of the difference fp32 knows 2^-24 of the larger score, of 2^x its logarithm times that.
      EXPECT_NEAR(static_cast<double>(weights[i]), expected, expected * 1e-5 + 1e-37) << i << " of " << count;
    }
    EXPECT_NEAR(static_cast<double>(sum), expected_sum, expected_sum * 1e-5) << count;
  }
}

// Softmax down the columns, by blocks of rows, with columns that see no row of the first,
// whose scores there are -infinity.
TEST(RowMath, SharesColumnsAmongBlocks) {
  std::mt19937 random(testing::RunSeed());
  std::normal_distribution<float> score(0, 20);
  for (const size_t block_rows : {1u, 2u, 4u, 7u, 16u, 32u}) {
    for (const size_t num_blocks : {1u, 2u, 9u}) {
      const auto columns = static_cast<size_t>(kColumns);
      std::vector<float> scores(num_blocks * block_rows * columns);
      for (float& one : scores) one = score(random);
      for (size_t column = 0; column < columns; ++column) {
        if (num_blocks < 2 || column % 3 != 0) continue;
        for (size_t row = 0; row < block_rows; ++row)
          scores[row * columns + column] = -std::numeric_limits<float>::infinity();
      }
      std::vector<float> largest(num_blocks * columns, kNan), shares(num_blocks * columns, kNan);
      for (size_t block = 0; block < num_blocks; ++block) {
        ColumnWeights(scores.data() + block * block_rows * columns, static_cast<int64_t>(block_rows),
                      largest.data() + block * columns, shares.data() + block * columns);
      }
      ColumnShares(largest.data(), static_cast<int64_t>(num_blocks), shares.data());
      for (size_t column = 0; column < columns; ++column) {
        double total = 0;
        std::vector<double> expected(num_blocks, 0.0);
        for (size_t row = 0; row < num_blocks * block_rows; ++row) {
          const double weight = std::exp2(static_cast<double>(scores[row * columns + column]));
          expected[row / block_rows] += weight;
          total += weight;
        }
        for (size_t block = 0; block < num_blocks; ++block) {
          EXPECT_NEAR(static_cast<double>(shares[block * columns + column]), expected[block] / total, 2e-5)
              << block << " of " << num_blocks << ", " << block_rows << " rows, column " << column;
        }
      }
    }
  }
}

TEST(RowMath, AddsScaled) {
  std::mt19937 random(testing::RunSeed());
  for (const size_t count : {0u, 1u, 15u, 16u, 17u, 64u, 1001u}) {
    const std::vector<float> row = Shares(count, &random), begin = Shares(count, &random);
    std::vector<float> sums = begin;
    AddScaled(row.data(), static_cast<int64_t>(count), 0.37f, sums.data());
    for (size_t i = 0; i < count; ++i) EXPECT_FLOAT_EQ(sums[i], begin[i] + row[i] * 0.37f);
    StoreScaled(row.data(), static_cast<int64_t>(count), 0.37f, sums.data());
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(sums[i], row[i] * 0.37f);
  }
}

TEST(RowMath, PoolsWindows) {
  std::mt19937 random(testing::RunSeed());
  for (const int64_t count : {1, 2, 15, 16, 17, 100, 259}) {
    for (const bool maximum : {false, true}) {
      const int64_t padded = (4 * count + kPoolPadding - 1) / kPoolPadding * kPoolPadding;
      const int64_t num_windows = std::max<int64_t>(4 * count - 1 - static_cast<int64_t>(random() % 4), 0);
      std::vector<float> windows(static_cast<size_t>(padded + 1), 0.0f);
      const std::vector<float> shares = Shares(static_cast<size_t>(num_windows), &random);
      std::ranges::copy(shares, windows.begin() + 1);
      if (maximum && num_windows > 5) windows[3] = kNan;  // the third window, of block 0 alone
      std::vector<float> blocks(static_cast<size_t>(count) + 1, -1.0f);
      PoolWindows(windows.data() + 1, count, maximum, blocks.data());
      for (int64_t block = 0; block < count; ++block) {
        float expected = 0;
        for (int64_t part = 4 * block; part < 4 * block + 4; ++part) {
          const float own = windows[static_cast<size_t>(part + 1)], before = windows[static_cast<size_t>(part)];
          if (!maximum) expected += own + before;
          for (const float share : {own, before}) {
            if (maximum && share > expected) expected = share;
          }
        }
        EXPECT_EQ(blocks[static_cast<size_t>(block)], expected) << block << " of " << count;
      }
      EXPECT_EQ(blocks.back(), -1.0f);
    }
  }
}

TEST(RowMath, BoundsTheBest) {
  std::mt19937 random(testing::RunSeed());
  for (const size_t count : {1u, 13u, 16u, 31u, 250u, 1000u}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<float> scores = Shares(count, &random);
      if (round % 3 == 1) {
        for (float& score : scores) score = std::round(score * 200) / 200;  // many that are equal
      }
      const auto k = static_cast<int64_t>(1 + random() % count);
      std::vector<float> descending = scores;
      std::ranges::sort(descending, std::greater<>());
      const float kth = descending[static_cast<size_t>(k - 1)];
      for (const float low : {0.0f, kth, kth / 2}) {
        const float bound = BoundOfBest(scores.data(), static_cast<int64_t>(count), k, low);
        EXPECT_GE(bound, low);
        EXPECT_LE(bound, kth);
        std::vector<int32_t> indices = {7};
        IndicesNotBelow(scores.data(), static_cast<int64_t>(count), bound, &indices);
        std::vector<int32_t> expected;
        for (size_t i = 0; i < count; ++i) {
          if (scores[i] >= bound) expected.push_back(static_cast<int32_t>(i));
        }
        EXPECT_EQ(indices, expected);
        // More than k only where scores equal the k-th.
        EXPECT_EQ(std::ranges::count_if(scores, [&](float score) { return score >= bound; }),
                  std::ranges::count_if(scores, [&](float score) { return score >= kth; }));
      }
    }
  }
}

TEST(RowMath, NaNReachesNoBound) {
  std::vector<float> scores(40, 0.5f);
  scores[3] = scores[39] = kNan;
  std::vector<int32_t> indices;
  IndicesNotBelow(scores.data(), 40, BoundOfBest(scores.data(), 40, 39, 0.0f), &indices);
  EXPECT_EQ(indices.size(), 38u);
}

// Against float64.
void ExpectTheProducts() {
  std::mt19937 random(testing::RunSeed());
  std::normal_distribution<float> normal;
  for (const int32_t width : {8, 64, 512, 1024}) {
    for (const int32_t num_keys : {1, 63, 64, 65, 200}) {
      // Fewer rows than a tile of the matrix unit has, some tiles, and what is left behind them.
      const int32_t num_rows = 1 + static_cast<int32_t>(random() % 70), all_keys = num_keys + 3;
      std::vector<uint16_t> q(static_cast<size_t>(num_rows * width)), k(static_cast<size_t>(all_keys * width));
      for (std::vector<uint16_t>* rows : {&q, &k}) {
        for (uint16_t& x : *rows) x = RoundToBFloat16(normal(random));
      }
      const BFloat16Keys keys(k.data(), all_keys, width);
      const int64_t ld = (num_keys + 63) / 64 * 64;
      std::vector<float> scores(static_cast<size_t>(num_rows * ld + 1), -7.0f);
      ScoreBFloat16(q.data(), num_rows, keys, num_keys, 0.25f, scores.data(), ld);
      for (int32_t row = 0; row < num_rows; ++row) {
        for (int32_t key = 0; key < num_keys; ++key) {
          double sum = 0, size = 0;
          for (int32_t d = 0; d < width; ++d) {
            const double product = static_cast<double>(FloatFromBFloat16(q[static_cast<size_t>(row * width + d)])) *
                                   static_cast<double>(FloatFromBFloat16(k[static_cast<size_t>(key * width + d)]));
            sum += product;
            size += std::abs(product);
          }
          EXPECT_NEAR(scores[static_cast<size_t>(row * ld + key)], 0.25 * sum, 1e-6 * size);
        }
      }
      EXPECT_EQ(scores.back(), -7.0f);
    }
  }
}

// What ScoreBFloat16 may use, for as long as it lives.
class OnUnit {
 public:
  explicit OnUnit(BFloat16Unit unit) { LimitBFloat16(unit); }
  ~OnUnit() { LimitBFloat16(BFloat16Unit::kTiles); }
  OnUnit(const OnUnit&) = delete;
  OnUnit& operator=(const OnUnit&) = delete;
};

TEST(BFloat16Scores, AreTheProductsInAPlainLoop) {
  const OnUnit plain(BFloat16Unit::kNone);
  EXPECT_FALSE(HasBFloat16Products());
  ExpectTheProducts();
}

TEST(BFloat16Scores, AreTheProductsOfTheInstruction) {
  const OnUnit vectors(BFloat16Unit::kVectors);
  if (BestBFloat16Unit() != BFloat16Unit::kVectors) GTEST_SKIP() << "no AVX512-BF16 on this machine";
  ExpectTheProducts();
}

TEST(BFloat16Scores, AreTheProductsOfTheMatrixUnit) {
  if (BestBFloat16Unit() != BFloat16Unit::kTiles) GTEST_SKIP() << "no AMX on this machine";
  ExpectTheProducts();
}

// An infinite component makes the scores that it makes in fp32: infinite, or none of a product with 0.
TEST(BFloat16Scores, OfAnInfinityAreInfinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const BFloat16Unit unit : {BFloat16Unit::kNone, BFloat16Unit::kVectors, BFloat16Unit::kTiles}) {
    const OnUnit limit(unit);
    std::vector<uint16_t> q(16 * 32, RoundToBFloat16(0.5f)), k(64 * 32, RoundToBFloat16(2.0f));
    q[3 * 32 + 7] = RoundToBFloat16(-kInfinity);
    k[5 * 32 + 7] = 0;
    const BFloat16Keys keys(k.data(), 64, 32);
    std::vector<float> scores(16 * 64);
    ScoreBFloat16(q.data(), 16, keys, 64, 0.25f, scores.data(), 64);
    for (size_t row = 0; row < 16; ++row) {
      for (size_t key = 0; key < 64; ++key) {
        const float score = scores[row * 64 + key];
        if (row == 3 && key == 5) {
          EXPECT_TRUE(std::isnan(score));
        } else {
          EXPECT_EQ(score, row == 3 ? -kInfinity : key == 5 ? 7.75f : 8.0f) << row << " " << key;
        }
      }
    }
  }
}

}  // namespace
}  // namespace headscope::kernels::internal
