// SPDX-License-Identifier: Apache-2.0
// The score primitive against float64 arithmetic written out plainly, on every instruction set that this machine has.
#include "kernels/cpu_scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu_test_support.h"

namespace headscope::kernels {
namespace {

using test::RandomFloats;

class CpuScores : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { test::UseOnlyTarget(GetParam()); }
  void TearDown() override { test::UseAllTargets(); }
};

double Score(const float* q, const float* k, int32_t head_dim, double scale, double soft_cap) {
  double dot = 0;
  for (int32_t d = 0; d < head_dim; ++d) dot += static_cast<double>(q[d]) * static_cast<double>(k[d]);
  const double score = scale * dot;
  return soft_cap > 0 ? soft_cap * std::tanh(score / soft_cap) : score;
}

TEST_P(CpuScores, BlocksOfAnyShapeEqualFloat64) {
  std::mt19937 random = test::SeededRandom();
  for (const int32_t head_dim : {8, 40, 64, 96, 128, 256}) {
    const int32_t seq_k = 150;
    const std::vector<float> k = RandomFloats(random, int64_t{seq_k} * head_dim);
    const PackedKeys keys(k.data(), DType::kFloat32, head_dim, seq_k, head_dim);
    for (const int32_t rows : {1, 5, 12, 13, 64}) {
      const int64_t q_stride = head_dim + 3;
      const std::vector<float> q = RandomFloats(random, rows * q_stride);
      for (const auto& [begin, end] :
           std::vector<std::pair<int32_t, int32_t>>{{0, 150}, {0, 32}, {31, 33}, {17, 17}, {64, 128}, {149, 150}}) {
        for (const float soft_cap : {0.0f, 2.5f}) {
          const int64_t ld = end - begin + 5;
          std::vector<float> scores(static_cast<size_t>(rows * ld), test::kSentinel);
          ScoreBlock(q.data(), q_stride, rows, keys, begin, end, 0.3f, soft_cap, scores.data(), ld);
          for (int32_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < ld; ++j) {
              const float actual = scores[static_cast<size_t>(i * ld + j)];
              if (j >= end - begin) {
                ASSERT_EQ(actual, test::kSentinel) << "wrote past the block";
                continue;
              }
              const double expected = Score(&q[static_cast<size_t>(i * q_stride)],
                                            &k[static_cast<size_t>((begin + j) * head_dim)], head_dim, 0.3, soft_cap);
              // A dot product of D terms of size about 1: its rounding error is below D * 2^-24 * sum |q k|; 1e-6 *
              // sqrt(D) leaves room.
              ASSERT_NEAR(actual, expected, 2e-6 * std::sqrt(head_dim) + 1e-6 * std::abs(expected))
                  << "row " << i << " column " << begin + j;
            }
          }
        }
      }
    }
  }
}

// A soft cap bounds what is infinite, but hides no NaN.
TEST_P(CpuScores, SoftCapOfSpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const float products[] = {nan, infinity, -infinity, 3e38f, -3e38f, 200.0f, 20.0f, -3.0f, 1.4f, 1e-6f, 0.0f, -nan};
  constexpr int32_t kNumKeys = 41, kHeadDim = 8;  // every product in every lane, and in the rest of a vector
  std::vector<float> q(kHeadDim), k(kNumKeys * kHeadDim), scores(kNumKeys);
  q[0] = 1.0f;
  for (size_t i = 0; i < kNumKeys; ++i) k[i * kHeadDim] = products[i % std::size(products)];
  const PackedKeys keys(k.data(), DType::kFloat32, kHeadDim, kNumKeys, kHeadDim);
  ScoreBlock(q.data(), kHeadDim, 1, keys, 0, kNumKeys, 1.0f, 2.5f, scores.data(), kNumKeys);
  for (size_t i = 0; i < kNumKeys; ++i) {
    const double expected = 2.5 * std::tanh(static_cast<double>(k[i * kHeadDim]) / 2.5);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(scores[i])) << i;
    } else {
      EXPECT_NEAR(scores[i], expected, 5e-7 * std::abs(expected)) << i;
    }
  }
}

TEST_P(CpuScores, PackedKeysReadStridedRowsOfEveryDtype) {
  std::mt19937 random = test::SeededRandom();
  const int32_t seq_k = 45, head_dim = 24;
  const int64_t stride = 30;
  const std::vector<float> q = RandomFloats(random, head_dim);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const test::StoredTensor k = test::Store(RandomFloats(random, seq_k * stride), dtype);
    const PackedKeys keys(k.data(), dtype, stride, seq_k, head_dim);
    std::vector<float> scores(static_cast<size_t>(seq_k));
    ScoreBlock(q.data(), head_dim, 1, keys, 0, seq_k, 1.0f, 0.0f, scores.data(), seq_k);
    for (int32_t c = 0; c < seq_k; ++c) {
      EXPECT_NEAR(scores[static_cast<size_t>(c)],
                  Score(q.data(), &k.values[static_cast<size_t>(c * stride)], head_dim, 1.0, 0.0), 1e-5);
    }
  }
}

// Groups of neighbours as keys: the last row first, zeros in the place of rows that the last group lacks.
TEST_P(CpuScores, PackedGroupsAreTheirRowsInReverse) {
  std::mt19937 random = test::SeededRandom();
  const int32_t head_dim = 24, num_rows = 3;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int32_t size : {1, 4, 16}) {
      for (const int32_t seq_k : {1, 3, 4, 65, 16 * 67 + 5}) {
        const int64_t stride = head_dim + 3;
        const test::StoredTensor k = test::Store(RandomFloats(random, int64_t{seq_k} * stride), dtype);
        const int32_t num_groups = (seq_k + size - 1) / size, width = size * head_dim;
        const PackedKeys keys = PackedKeys::OfGroups(k.data(), dtype, stride, seq_k, head_dim, size);
        ASSERT_EQ(keys.seq_k(), num_groups);
        ASSERT_EQ(keys.head_dim(), width);
        std::vector<float> groups(static_cast<size_t>(int64_t{num_groups} * width));
        for (int32_t row = 0; row < seq_k; ++row) {
          const int32_t place = row / size * size + size - 1 - row % size;
          for (int32_t d = 0; d < head_dim; ++d)
            groups[static_cast<size_t>(int64_t{place} * head_dim + d)] =
                k.values[static_cast<size_t>(row * stride + d)];
        }
        const std::vector<float> q = RandomFloats(random, int64_t{num_rows} * width);
        std::vector<float> scores(static_cast<size_t>(num_rows * num_groups));
        ScoreBlock(q.data(), width, num_rows, keys, 0, num_groups, 0.3f, 0.0f, scores.data(), num_groups);
        for (int64_t i = 0; i < num_rows; ++i) {
          for (int64_t j = 0; j < num_groups; ++j) {
            const double expected =
                Score(&q[static_cast<size_t>(i * width)], &groups[static_cast<size_t>(j * width)], width, 0.3, 0.0);
            ASSERT_NEAR(scores[static_cast<size_t>(i * num_groups + j)], expected,
                        2e-6 * std::sqrt(width) + 1e-6 * std::abs(expected))
                << "size " << size << ", " << seq_k << " rows, group " << j;
          }
        }
      }
    }
  }
}

// Every 97th float of the range in which results are normal numbers: about 6 million arguments in steps much finer
// than the polynomial's features, and the ends and specials by name.
TEST_P(CpuScores, ExpIsWithinItsBound) {
  std::vector<float> x;
  const auto sweep = [&](float from, float to) {
    uint32_t first, last;
    std::memcpy(&first, &from, 4);
    std::memcpy(&last, &to, 4);
    for (uint32_t bits = first; bits <= last; bits += 97) {
      float value;
      std::memcpy(&value, &bits, 4);
      x.push_back(value);
    }
  };
  sweep(1e-8f, 88.3f);
  sweep(-1e-8f, -86.5f);
  std::vector<float> y = x;
  ExpInPlace(y.data(), static_cast<int64_t>(y.size()), 0.0f);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - expected) / expected);
  }
  EXPECT_LE(worst, 4e-7) << "over " << x.size() << " arguments";
  RecordProperty("worst_relative_error", std::to_string(worst * 1e9) + "e-9");
}

TEST_P(CpuScores, ExpOfSpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> row{-kInfinity, 0.0f,   -0.0f,     89.0f,
                         -200.0f,    -86.7f, kInfinity, std::numeric_limits<float>::quiet_NaN()};
  row.resize(19, -kInfinity);  // reaches both the vector loop and the remainder
  row[18] = 1.0f;
  ExpInPlace(row.data(), static_cast<int64_t>(row.size()), 0.0f);
  EXPECT_EQ(row[0], 0.0f);
  EXPECT_EQ(row[1], 1.0f);
  EXPECT_EQ(row[2], 1.0f);
  EXPECT_EQ(row[3], kInfinity);
  EXPECT_EQ(row[4], 0.0f);
  EXPECT_EQ(row[5], 0.0f);
  EXPECT_EQ(row[6], kInfinity);
  EXPECT_TRUE(std::isnan(row[7]));
  EXPECT_FLOAT_EQ(row[18], 2.7182818f);
}

TEST_P(CpuScores, SumOfExponentialsStaysExactForLongRows) {
  std::mt19937 random = test::SeededRandom();
  for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{15}, int64_t{1000}, int64_t{131072}}) {
    std::vector<float> row = RandomFloats(random, n);
    const float shift = MaxOf(row.data(), n);
    double expected = 0;
    for (const float value : row) expected += std::exp(static_cast<double>(value) - static_cast<double>(shift));
    const float actual = ExpInPlace(row.data(), n, n == 0 ? 0.0f : shift);
    // 1e-6 for the summation (its contract) and 4e-7 for each term.
    EXPECT_NEAR(actual, expected, 1.4e-6 * expected) << n;
  }
}

TEST_P(CpuScores, MaxOfFindsTheLargestAnywhere) {
  for (const size_t n : {size_t{1}, size_t{7}, size_t{16}, size_t{33}, size_t{100}}) {
    for (size_t at = 0; at < n; ++at) {
      std::vector<float> row(n, -3.0f);
      row[at] = -2.0f;
      ASSERT_EQ(MaxOf(row.data(), static_cast<int64_t>(n)), -2.0f);
    }
  }
  EXPECT_EQ(MaxOf(nullptr, 0), -std::numeric_limits<float>::infinity());
}

TEST_P(CpuScores, MoveAboveToFrontPartsInOrder) {
  std::mt19937 random = test::SeededRandom();
  for (const int64_t n : {0, 1, 15, 16, 17, 63, 200, 5000}) {
    std::vector<float> row = RandomFloats(random, n);
    for (float& value : row) value = std::exp(value);
    if (n > 20) row[5] = row[19] = row[3];  // equal ones stay together
    std::vector<float> bounds = {0.0f, 1.0f, 1e30f};
    if (n > 20) bounds.push_back(row[3]);
    for (const float bound : bounds) {
      std::vector<float> above, others;
      double sum = 0;
      for (const float value : row) {
        (value > bound ? above : others).push_back(value);
        if (value > bound) sum += static_cast<double>(value);
      }
      std::vector<float> expected = above;
      expected.insert(expected.end(), others.begin(), others.end());
      // A guard behind the row: nothing may be written there.
      std::vector<float> actual = row, scratch(row.size() + 1, -7.0f);
      actual.push_back(-5.0f);
      const RowShare share = MoveAboveToFront(actual.data(), n, bound, scratch.data());
      EXPECT_EQ(share.count, static_cast<int64_t>(above.size())) << n << " " << bound;
      EXPECT_NEAR(share.sum, sum, 1e-12 * (1 + sum)) << n << " " << bound;
      EXPECT_EQ(actual.back(), -5.0f);
      EXPECT_EQ(scratch.back(), -7.0f);
      actual.pop_back();
      EXPECT_EQ(actual, expected) << n << " " << bound;
    }
  }
}

TEST_P(CpuScores, RowLseEqualsFloat64) {
  std::mt19937 random = test::SeededRandom();
  struct Case {
    int32_t seq_q, seq_k, first_position, window;
    float soft_cap;
  };
  for (const Case& c :
       {Case{130, 130, 0, 0, 0}, Case{1, 1, 0, 0, 0}, Case{70, 1300, 1230, 0, 0}, Case{130, 130, 0, 17, 0},
        Case{65, 700, 635, 600, 3}, Case{20, 30, 0, 0, 0}, Case{20, 10, 15, 4, 0}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      test::OwnedProblem owned = test::MakeProblem(random, {.batch = 2,
                                                            .num_qo_heads = 4,
                                                            .num_kv_heads = 2,
                                                            .head_dim = 40,
                                                            .seq_q = c.seq_q,
                                                            .seq_k = c.seq_k,
                                                            .first_position = c.first_position,
                                                            .dtype = dtype,
                                                            .soft_cap = c.soft_cap});
      std::vector<float> lse(static_cast<size_t>(2 * 4 * c.seq_q));
      const Status status = RowLse(owned.problem, c.window, {}, lse.data());
      ASSERT_TRUE(status.ok()) << status.message();
      for (int32_t b = 0; b < 2; ++b) {
        for (int32_t h = 0; h < 4; ++h) {
          for (int32_t row = 0; row < c.seq_q; ++row) {
            const int64_t position = c.first_position + row;
            double sum = 0;
            for (int32_t column = 0; column < c.seq_k; ++column) {
              if (column > position || (c.window > 0 && position - column >= c.window)) continue;
              sum +=
                  std::exp(Score(owned.Q(b, h, row), owned.K(b, h / 2, column), 40, 1.0 / std::sqrt(40.0), c.soft_cap));
            }
            const float actual = lse[static_cast<size_t>((b * 4 + h) * c.seq_q + row)];
            if (sum == 0) {
              ASSERT_EQ(actual, -std::numeric_limits<float>::infinity());
            } else {
              ASSERT_NEAR(actual, std::log(sum), 5e-6) << "row " << row;
            }
          }
        }
      }
    }
  }
}

TEST(CpuRowLse, RefusesWhatItCannotRead) {
  std::mt19937 random = test::SeededRandom();
  test::OwnedProblem owned =
      test::MakeProblem(random, {.num_qo_heads = 2, .num_kv_heads = 1, .head_dim = 16, .seq_q = 4, .seq_k = 4});
  std::vector<float> lse(8, test::kSentinel);
  AttentionProblem problem = owned.problem;
  problem.k.data = nullptr;
  EXPECT_THAT(RowLse(problem, 0, {}, lse.data()).message(), ::testing::HasSubstr("k.data is null"));
  problem = owned.problem;
  problem.head_dim = 0;
  EXPECT_THAT(RowLse(problem, 0, {}, lse.data()).message(), ::testing::HasSubstr("head_dim is 0"));
  EXPECT_EQ(RowLse(owned.problem, -1, {}, lse.data()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(RowLse(owned.problem, 0, {}, nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(lse, ::testing::Each(test::kSentinel));
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuScores, ::testing::ValuesIn(test::MachineTargets()), test::TargetName);

}  // namespace
}  // namespace headscope::kernels
