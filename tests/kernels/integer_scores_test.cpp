// SPDX-License-Identifier: Apache-2.0
// Scores of rows rounded to whole numbers.
#include "internal/integer_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "cpu_test_support.h"
#include "kernels/narrow_floats.h"
#include "run_seed.h"

namespace headscope::kernels::internal {
namespace {

// What multiplies at most, for as long as it lives.
class WithUnit {
 public:
  explicit WithUnit(IntegerUnit most) { LimitIntegers(most); }
  ~WithUnit() { LimitIntegers(IntegerUnit::kFused); }
  WithUnit(const WithUnit&) = delete;
  WithUnit& operator=(const WithUnit&) = delete;
};

using FloatRows = std::vector<std::vector<float>>;

FloatRows RandomRows(int32_t count, int32_t width, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> exponent(-12, 12);
  FloatRows rows(static_cast<size_t>(count), std::vector<float>(static_cast<size_t>(width)));
  for (size_t row = 0; row < rows.size(); ++row) {
    const float size = std::exp2(exponent(*random));
    for (float& x : rows[row]) x = size * normal(*random);
    if (row % 5 == 1) std::ranges::fill(rows[row], size);  // the longest of all with such components
    if (row % 5 == 2) rows[row][0] = 300 * size;           // one that takes all the bits
    if (row % 5 == 3 && row % 2 == 0) std::ranges::fill(rows[row], 0.0f);
  }
  return rows;
}

// Every score lies as near the exact one as the rows say, and nothing behind the last row is written.
void ExpectTheBounds(IntegerUnit unit) {
  const WithUnit limited(unit);
  std::mt19937 random(testing::RunSeed());
  for (const int32_t width : {2, 30, 64, 128, 320, 1024}) {
    const int32_t num_rows = 1 + static_cast<int32_t>(random() % 40);
    int32_t num_columns = 1 + static_cast<int32_t>(random() % 60);
    const FloatRows x = RandomRows(num_rows, width, &random);
    FloatRows y = RandomRows(num_columns, width, &random);
    IntegerRows rows;
    rows.width = width;
    rows.by_powers = width % 3 == 0;
    for (const std::vector<float>& row : x) rows.Append(row.data());
    // Columns that are what rounding took from a row: of these the bound is reached.
    for (int32_t row = 0; row < std::min(num_rows, 4); ++row, ++num_columns) {
      std::vector<float>& column = y.emplace_back(x[static_cast<size_t>(row)]);
      for (int32_t d = 0; d < width; ++d)
        column[static_cast<size_t>(d)] -=
            rows.rows[static_cast<size_t>(row)].step * rows.numbers[static_cast<size_t>(row * width + d)];
    }
    IntegerColumns columns;
    columns.Start(width, width % 5 == 0);
    for (const std::vector<float>& column : y) columns.Append(column.data());
    columns.Finish();
    const int32_t begin = num_rows / 3, from = num_columns > 16 ? 16 : 0;
    constexpr float kScale = 0.25f, kUntouched = -7.0f;
    std::vector<float> scores(static_cast<size_t>((num_rows - begin) * 64 + 1), kUntouched);
    ScoreIntegers(rows, begin, num_rows, columns, from, kScale, scores.data());
    EXPECT_EQ(scores.back(), kUntouched);
    for (int32_t row = begin; row < num_rows; ++row) {
      for (int32_t column = from; column < num_columns; ++column) {
        const RoundedRow &of_row = rows.rows[static_cast<size_t>(row)],
                         &of_column = columns.columns()[static_cast<size_t>(column)];
        double exact = 0;
        for (size_t d = 0; d < static_cast<size_t>(width); ++d)
          exact += double{x[static_cast<size_t>(row)][d]} * double{y[static_cast<size_t>(column)][d]};
        const double size = double{of_row.length} * double{of_column.length};
        const double bound =
            double{of_row.error} * double{of_column.length} + double{of_row.length} * double{of_column.error};
        EXPECT_LE(bound, 3e-2 * size);
        EXPECT_NEAR(double{scores[static_cast<size_t>((row - begin) * 64 + column)]}, kScale * exact,
                    kScale * (bound + 6e-8 * (width / kPieceComponents + 8) * size))
            << width << " wide, row " << row << ", column " << column;
      }
    }
  }
}

TEST(IntegerScores, LieWithinTheirBoundsByVectors) {
  for (const int64_t target : test::MachineTargets()) {
    test::UseOnlyTarget(target);
    ExpectTheBounds(IntegerUnit::kVectors);
  }
  test::UseAllTargets();
}

TEST(IntegerScores, LieWithinTheirBoundsByTheInstruction) {
  if (BestIntegerUnit() != IntegerUnit::kFused) GTEST_SKIP() << "no AVX512-VNNI on this machine";
  ExpectTheBounds(IntegerUnit::kFused);
}

// Rows and columns of pieces as long as they may be, in one direction and in opposite ones: their products come closest
// to 2^31. Rounding makes those of 63 components longer still.
void ExpectTheLongestPiecesFit(IntegerUnit unit) {
  const WithUnit limited(unit);
  for (const int32_t alike : {1, 2, 3, 63, 64}) {  // components that are not 0
    for (const float sign : {1.0f, -1.0f}) {
      std::vector<float> row(128);
      std::fill_n(row.begin() + 64, alike, 0.75f);
      IntegerRows rows;
      rows.width = 128;
      rows.Append(row.data());
      IntegerColumns columns;
      columns.Start(128, /*by_powers=*/false);
      for (float& x : row) x *= sign;
      columns.Append(row.data());
      columns.Finish();
      std::vector<float> scores(64);
      ScoreIntegers(rows, 0, 1, columns, 0, 1.0f, scores.data());
      const double exact = 0.75 * 0.75 * alike;
      EXPECT_NEAR(double{sign} * double{scores[0]}, exact, 1e-4 * exact) << alike << " components, sign " << sign;
    }
  }
}

TEST(IntegerScores, OfTheLongestPiecesFit32Bits) {
  ExpectTheLongestPiecesFit(IntegerUnit::kFused);
  for (const int64_t target : test::MachineTargets()) {
    test::UseOnlyTarget(target);
    ExpectTheLongestPiecesFit(IntegerUnit::kVectors);
  }
  test::UseAllTargets();
}

TEST(IntegerScores, OfGaussianRowsLoseLittle) {
  std::mt19937 random(testing::RunSeed());
  std::normal_distribution<float> normal;
  std::vector<float> row(512);
  for (float& x : row) x = normal(random);
  std::vector<int16_t> numbers(row.size());
  const RoundedRow rounded = RoundRow(row.data(), 512, /*by_powers=*/false, numbers.data());
  EXPECT_LT(rounded.error, 1e-4f * rounded.length);
  // Of bfloat16's numbers less still.
  for (float& x : row) x = FloatFromBFloat16(RoundToBFloat16(x));
  EXPECT_LT(RoundRow(row.data(), 512, /*by_powers=*/true, numbers.data()).error, 0.6f * rounded.error);
}

TEST(IntegerScores, BoundNothingOfWhatIsNotFiniteOrHasNoScale) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const bool by_powers : {false, true}) {
    for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 1e30f, 3e38f}) {
      std::vector<float> row(80, 0.5f);
      row[71] = bad;
      std::vector<int16_t> numbers(row.size(), int16_t{3});
      EXPECT_EQ(RoundRow(row.data(), 80, by_powers, numbers.data()).error, kInfinity);
      EXPECT_EQ(std::ranges::count(numbers, int16_t{0}), 80);
    }
    std::vector<float> tiny(80, 1e-30f);
    std::vector<int16_t> numbers(tiny.size());
    EXPECT_EQ(RoundRow(tiny.data(), 80, by_powers, numbers.data()).error, kInfinity);
  }
}

}  // namespace
}  // namespace headscope::kernels::internal
