// SPDX-License-Identifier: Apache-2.0
// AttendCpu against the float64 reference on the same kept set, on every instruction set that this machine has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cpu_attend_run.h"

namespace headscope::kernels {
namespace {

using test::BuilderFor;
using test::EverythingIndex;
using test::ExpectEqualsReference;
using test::GuardedOutput;
using test::kMinusInfinity;
using test::MakeIndex;
using test::MakeProblem;
using test::OwnedProblem;
using test::RandomIndex;

class CpuAttend : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { test::UseOnlyTarget(GetParam()); }
  void TearDown() override { test::UseAllTargets(); }
};

TEST_P(CpuAttend, RandomIndicesOfEveryLengthGroupAndDtype) {
  std::mt19937 random = test::SeededRandom();
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  const std::pair<int32_t, int32_t> heads[] = {{1, 1}, {2, 1}, {4, 1}, {7, 1}, {8, 1}, {4, 2}};
  const ElementRule rules[] = {{}, {MaskKind::kCausalWindow, 40, 5}, {MaskKind::kNone, 0, 0}};
  int32_t turn = 0;
  for (const int32_t length : {1, 63, 64, 65, 127, 300}) {
    for (const int32_t tile_rows : {64, 128}) {
      for (const ElementRule& rule : rules) {
        const auto& [qo_heads, kv_heads] = heads[turn % 6];
        const OwnedProblem owned = MakeProblem(random,
                                               {.batch = 1 + turn % 2,
                                                .num_qo_heads = qo_heads,
                                                .num_kv_heads = kv_heads,
                                                .head_dim = turn % 4 == 3 ? 128 : 64,
                                                .seq_q = length,
                                                .seq_k = length,
                                                .dtype = dtypes[turn % 3]},
                                               /*row_padding=*/turn % 5);
        SCOPED_TRACE("length " + std::to_string(length) + ", tile of " + std::to_string(tile_rows) + ", turn " +
                     std::to_string(turn));
        ExpectEqualsReference(owned.problem, RandomIndex(random, owned.problem, tile_rows, rule));
        ++turn;
      }
    }
  }
}

TEST_P(CpuAttend, EveryHeadDim) {
  std::mt19937 random = test::SeededRandom();
  for (int32_t head_dim = 8; head_dim <= 256; head_dim += head_dim < 72 ? 8 : 40) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 2,
                                                      .num_kv_heads = 1,
                                                      .head_dim = head_dim,
                                                      .seq_q = 70,
                                                      .seq_k = 150,
                                                      .first_position = 80,
                                                      .dtype = dtype});
      SCOPED_TRACE("head_dim " + std::to_string(head_dim));
      ExpectEqualsReference(owned.problem, RandomIndex(random, owned.problem, 64, {}));
    }
  }
}

TEST_P(CpuAttend, ScaleAndSoftCap) {
  std::mt19937 random = test::SeededRandom();
  for (const float scale : {0.5f, 0.02f}) {
    for (const float soft_cap : {0.0f, 1.5f, 30.0f}) {
      const OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 1,
                                                      .num_kv_heads = 1,
                                                      .head_dim = 64,
                                                      .seq_q = 130,
                                                      .seq_k = 130,
                                                      .scale = scale,
                                                      .soft_cap = soft_cap});
      ExpectEqualsReference(owned.problem, EverythingIndex(owned.problem, 128));
    }
  }
}

// Scores of several hundred: weights underflow and the running maximum moves far.
TEST_P(CpuAttend, LargeScoresStayFinite) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned = MakeProblem(
      random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 200, .seq_k = 200, .scale = 10.0f});
  GuardedOutput actual(owned.problem), expected(owned.problem);
  const SparseIndex index = EverythingIndex(owned.problem, 64);
  ASSERT_TRUE(AttendReference(owned.problem, index.View(), expected.view).ok());
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), actual.view, {}).ok());
  // A score that is a sum of terms of up to 300 has an fp32 rounding error of several 1e-5, which is the relative error
  // of its weight, however small the sum.
  for (int64_t row = 0; row < 200; ++row) {
    EXPECT_NEAR(actual.Lse(row), expected.Lse(row), 1e-6 * std::abs(expected.Lse(row)) + 6e-5);
    for (int32_t d = 0; d < 64; ++d) EXPECT_NEAR(actual.Row(row)[d], expected.Row(row)[d], 1e-3);
  }
}

TEST_P(CpuAttend, EmptyRowsGiveZeroAndMinusInfinity) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned =
      MakeProblem(random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 192, .seq_k = 192});
  // Tile 0 is empty, tile 1 keeps keys for its lower half only, and in tile 2 the partial run begins in the middle of
  // the rows.
  SparseIndexBuilder builder = BuilderFor(owned.problem, 64, {});
  builder.FinishList();
  builder.AddRange(3, 70, kRunLowerHalf);
  builder.FinishList();
  builder.AddRange(150, 192);
  builder.FinishList();
  const SparseIndex index = builder.Build();
  ExpectEqualsReference(owned.problem, index);
  GuardedOutput output(owned.problem);
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), output.view, {}).ok());
  for (const int64_t row : {0, 63, 64, 95, 128, 149}) {
    EXPECT_EQ(output.Lse(row), kMinusInfinity) << row;
    for (int32_t d = 0; d < 64; ++d) EXPECT_EQ(output.Row(row)[d], 0.0f);
  }
  for (const int64_t row : {96, 127, 150, 191}) EXPECT_NE(output.Lse(row), kMinusInfinity) << row;
}

TEST_P(CpuAttend, UnreadKeysMayBeNaN) {
  std::mt19937 random = test::SeededRandom();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const ElementRule& rule : {ElementRule{}, ElementRule{MaskKind::kCausalWindow, 9, 2}}) {
      OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 1,
                                                .num_kv_heads = 1,
                                                .head_dim = 64,
                                                .seq_q = 100,
                                                .seq_k = 700,
                                                .first_position = 600,
                                                .dtype = dtype});
      // One tile; the index keeps some columns, and the rule drops some of those again. What no row keeps is poisoned.
      const SparseIndex index = MakeIndex(owned.problem, 128, rule, [](SparseIndexBuilder& builder, int64_t, int64_t) {
        builder.AddRange(0, 7);
        builder.AddRange(100, 333);
        builder.AddRange(590, 650);
        builder.AddRange(690, 698);
        for (const int64_t column : {20, 22, 400, 401, 500}) builder.AddColumn(column);
      });
      std::vector<bool> read(700, false);
      std::vector<ColumnRange> ranges;
      for (int32_t row = 0; row < 100; ++row) AppendKeptRanges(index.View(), 0, 0, row, &ranges);
      for (const ColumnRange& range : ranges) std::fill(read.begin() + range.begin, read.begin() + range.end, true);
      int32_t poisoned = 0;
      for (size_t column = 0; column < 700; ++column) {
        if (read[column]) continue;
        ++poisoned;
        for (test::StoredTensor* tensor : {&owned.k, &owned.v}) {
          for (size_t d = 0; d < 64; ++d) {
            tensor->values[column * 64 + d] = std::numeric_limits<float>::quiet_NaN();
            if (dtype == DType::kBFloat16) tensor->halves[column * 64 + d] = 0x7fc0;
          }
        }
      }
      ASSERT_GT(poisoned, 300);
      owned.Rebind();
      ExpectEqualsReference(owned.problem, index);
    }
  }
}

TEST_P(CpuAttend, KeptNaNShowsInTheOutput) {
  std::mt19937 random = test::SeededRandom();
  OwnedProblem owned = MakeProblem(
      random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 64, .seq_k = 128, .first_position = 64});
  owned.k.values[10 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
  GuardedOutput output(owned.problem);
  ASSERT_TRUE(AttendCpu(owned.problem, EverythingIndex(owned.problem, 64).View(), output.view, {}).ok());
  for (int64_t row = 0; row < 64; ++row) {
    EXPECT_TRUE(std::isnan(output.Row(row)[0])) << row;
    EXPECT_TRUE(std::isnan(output.Lse(row))) << row;
    EXPECT_TRUE(std::isnan(output.Largest(row))) << row;
  }
}

TEST_P(CpuAttend, SameBitsWithAnyNumberOfThreads) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned =
      MakeProblem(random, {.num_qo_heads = 4, .num_kv_heads = 2, .head_dim = 64, .seq_q = 500, .seq_k = 500});
  const SparseIndex index = RandomIndex(random, owned.problem, 64, {});
  GuardedOutput one(owned.problem), many(owned.problem);
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), one.view, {.num_threads = 1}).ok());
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), many.view, {.num_threads = 5}).ok());
  EXPECT_EQ(one.o, many.o);
  EXPECT_EQ(one.lse, many.lse);
}

// A whole prompt of 1000 and, of 4096 tokens, the last rows: dense and sparse.
TEST(CpuAttendLengths, PromptsOfThousandsOfTokens) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem whole =
      MakeProblem(random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 1000, .seq_k = 1000});
  ExpectEqualsReference(whole.problem, EverythingIndex(whole.problem, 128));
  const OwnedProblem end = MakeProblem(
      random,
      {.num_qo_heads = 2, .num_kv_heads = 1, .head_dim = 128, .seq_q = 150, .seq_k = 4096, .first_position = 3946});
  ExpectEqualsReference(end.problem, EverythingIndex(end.problem, 128));
  ExpectEqualsReference(end.problem, RandomIndex(random, end.problem, 128, {}));
}

// 46,341^2 is the first square beyond 31 bits; 131,072 rows of 64 in 4 heads are beyond 2^25 elements.
TEST(CpuAttendLengths, PositionsWhoseProductsNeed64Bits) {
  std::mt19937 random = test::SeededRandom();
  for (const int32_t seq_k : {46341, 131072}) {
    const OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 2,
                                                    .num_kv_heads = 1,
                                                    .head_dim = 64,
                                                    .seq_q = 3,
                                                    .seq_k = seq_k,
                                                    .first_position = seq_k - 3,
                                                    .dtype = DType::kBFloat16});
    ExpectEqualsReference(owned.problem, EverythingIndex(owned.problem, 64));
    ExpectEqualsReference(owned.problem, EverythingIndex(owned.problem, 64, {MaskKind::kCausalWindow, 70000, 4}));
    ExpectEqualsReference(owned.problem, RandomIndex(random, owned.problem, 128, {}));
  }
}

// Query rows after the last key (a chunk of queries against an older cache), and queries in front of all keys of a
// window.
TEST(CpuAttendLengths, QueriesBeyondTheKeys) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned = MakeProblem(
      random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 100, .seq_k = 120, .first_position = 90});
  ExpectEqualsReference(owned.problem, EverythingIndex(owned.problem, 64));
  ExpectEqualsReference(owned.problem, EverythingIndex(owned.problem, 64, {MaskKind::kCausalWindow, 30, 3}));
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuAttend, ::testing::ValuesIn(test::MachineTargets()), test::TargetName);

}  // namespace
}  // namespace headscope::kernels
