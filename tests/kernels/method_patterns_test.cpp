// SPDX-License-Identifier: Apache-2.0
// What the prefill methods that keep lines promise, each of its own: planted columns and diagonals are found, limits
// are dense, more budget keeps more.
#include <gtest/gtest.h>

#include <algorithm>

#include "kept_sets.h"

namespace headscope::kernels {
namespace {

using testing::CausalMask;
using testing::FreshSeed;
using testing::IsSubset;
using testing::Mask;
using testing::MaskOf;
using testing::RandomProblem;
using testing::Select;
using testing::SquareShape;

Mask MaskWhere(const AttentionProblem& problem, auto&& keeps) {
  Mask mask = CausalMask(problem);
  for (size_t row = 0; row < mask.size(); ++row) {
    for (size_t column = 0; column < mask[row].size(); ++column) {
      mask[row][column] = mask[row][column] && keeps(static_cast<int>(row), static_cast<int>(column));
    }
  }
  return mask;
}

// Makes key `column` attract every query: its score is larger than any random one.
void PlantColumn(int32_t column, float strength, int32_t row_begin, int32_t row_end, RandomProblem* data) {
  for (int32_t row = row_begin; row < row_end; ++row) data->q.Set(0, 0, row, 0, strength);
  for (int32_t row = 0; row < data->shape.seq_k; ++row) data->k.Set(0, 0, row, 0, row == column ? strength : 0.0f);
}

// Makes query r attend key r - offset: equal vectors.
void PlantSlash(int32_t offset, float strength, RandomProblem* data) {
  for (int32_t row = offset; row < data->shape.seq_q; ++row) {
    for (int32_t d = 0; d < data->shape.head_dim; ++d) {
      data->q.Set(0, 0, row, d, strength * data->k.Get(0, 0, row - offset, d));
    }
  }
}

TEST(AShape, KeepsSinksAndWindowTokenByToken) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(400), &random);
  const Mask mask = MaskOf(Select("a-shape", "n_sink=10,n_local=33", data.View()));
  EXPECT_EQ(mask, MaskWhere(data.View(), [](int row, int column) { return column < 10 || row - column < 33; }));
  for (size_t row = 0; row < mask.size(); ++row) {
    EXPECT_EQ(static_cast<size_t>(std::count(mask[row].begin(), mask[row].end(), true)), std::min<size_t>(row + 1, 43));
  }
}

TEST(AShape, IsDenseUntilSinksAndWindowAreFull) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(300), &random);
  EXPECT_EQ(MaskOf(Select("a-shape", "n_sink=100,n_local=200", data.View())), CausalMask(data.View()));
  EXPECT_NE(MaskOf(Select("a-shape", "n_sink=100,n_local=199", data.View())), CausalMask(data.View()));
}

TEST(AShape, GrowsWithBothParameters) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(300), &random);
  const Mask base = MaskOf(Select("a-shape", "n_sink=10,n_local=50", data.View()));
  EXPECT_TRUE(IsSubset(base, MaskOf(Select("a-shape", "n_sink=11,n_local=50", data.View()))));
  EXPECT_TRUE(IsSubset(base, MaskOf(Select("a-shape", "n_sink=10,n_local=51", data.View()))));
}

TEST(AShape, SharesOneListAmongAllHeads) {
  std::mt19937 random(FreshSeed());
  const SparseIndex one = Select("a-shape", "n_sink=10,n_local=50", RandomProblem(SquareShape(300), &random).View());
  const SparseIndex many =
      Select("a-shape", "n_sink=10,n_local=50", RandomProblem(SquareShape(300, 8, 2), &random).View());
  EXPECT_EQ(one.runs, many.runs);
  EXPECT_EQ(CountPairs(many.View()).kept, 8 * CountPairs(one.View()).kept);
}

TEST(VerticalSlash, FindsAPlantedColumn) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(500), &random, 0.3f);
  PlantColumn(123, 6.0f, 0, 500, &data);
  const Mask mask = MaskOf(Select("vertical-slash", "n_vertical=1,n_slash=0", data.View()));
  EXPECT_EQ(mask, MaskWhere(data.View(), [](int, int column) { return column == 123; }));
}

TEST(VerticalSlash, FindsAPlantedDiagonalAndKeepsItsBlockRanges) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(500, 1, 1, 64), &random, 1.0f);
  PlantSlash(77, 3.0f, &data);
  const Mask mask = MaskOf(Select("vertical-slash", "n_vertical=0,n_slash=1", data.View()));
  const Mask expected = MaskWhere(data.View(), [](int row, int column) {
    const int begin = row / 64 * 64 - 77;
    return column >= begin && column < begin + 64;
  });
  EXPECT_EQ(mask, expected);
  EXPECT_TRUE(IsSubset(MaskWhere(data.View(), [](int row, int column) { return row - column == 77; }), mask));
}

TEST(VerticalSlash, AllColumnsAreDenseEvenWithOneFarDiagonal) {
  // The printed merge loop ends with the last diagonal's range and so loses the columns right of it.
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(500, 1, 1, 64), &random, 1.0f);
  PlantSlash(20, 3.0f, &data);
  const std::string parameters = "n_vertical=500,n_slash=1";
  EXPECT_EQ(MaskOf(Select("vertical-slash", parameters, data.View())), CausalMask(data.View()));
}

TEST(VerticalSlash, AllDiagonalsAreDense) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(333), &random);
  EXPECT_EQ(MaskOf(Select("vertical-slash", "n_vertical=0,n_slash=333", data.View())), CausalMask(data.View()));
}

TEST(VerticalSlash, NamesEachKeyOnceInARowBlock) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(600), &random);
  const SparseIndex index = Select("vertical-slash", "n_vertical=90,n_slash=2", data.View());
  // Validate, in Select, has checked that lists are disjoint; each block has at most n_slash runs of its own and
  // n_vertical columns.
  for (size_t list = 0; list < index.column_count.size(); ++list) {
    EXPECT_LE(index.column_count[list], 90);
  }
  EXPECT_GT(index.columns.size(), 30u);
}

TEST(VerticalSlash, LooksOnlyAtTheLastQueries) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(400), &random);
  const std::string parameters = "n_vertical=20,n_slash=3";
  const SparseIndex before = Select("vertical-slash", parameters, data.View());
  for (int32_t row = 0; row < 400 - 64; ++row) {
    for (int32_t d = 0; d < 16; ++d) data.q.Set(0, 0, row, d, -3.0f * data.q.Get(0, 0, row, d) + 1.0f);
  }
  const SparseIndex after = Select("vertical-slash", parameters, data.View());
  EXPECT_EQ(before.runs, after.runs);
  EXPECT_EQ(before.columns, after.columns);
  for (int32_t row = 400 - 64; row < 400; ++row) {
    for (int32_t d = 0; d < 16; ++d) data.q.Set(0, 0, row, d, -data.q.Get(0, 0, row, d));
  }
  const SparseIndex changed = Select("vertical-slash", parameters, data.View());
  EXPECT_TRUE(before.runs != changed.runs || before.columns != changed.columns);
}

TEST(VerticalSlash, ForcedLinesCountInsideTheBudget) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(400), &random, 0.3f);
  PlantColumn(200, 6.0f, 0, 400, &data);
  const Mask mask = MaskOf(Select("vertical-slash", "n_vertical=4,n_slash=0,forced_columns=3", data.View()));
  EXPECT_EQ(mask, MaskWhere(data.View(), [](int, int column) { return column < 3 || column == 200; }));
}

TEST(SampleAttention, AShareOfOneKeepsEverything) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(900), &random);
  for (const char* parameters :
       {"alpha_c=1,alpha_s=0", "alpha_c=0,alpha_s=1", "alpha_c=1,alpha_s=0,chunk_n=3,own_rows_only=1"}) {
    EXPECT_EQ(MaskOf(Select("sample-attention", parameters, data.View())), CausalMask(data.View())) << parameters;
  }
  EXPECT_EQ(CountPairs(Select("sample-attention", "alpha_c=0,alpha_s=0", data.View()).View()).kept, 0);
}

TEST(SampleAttention, GrowsWithBothShares) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1500), &random);
  const Mask base = MaskOf(Select("sample-attention", "alpha_c=0.3,alpha_s=0.2", data.View()));
  for (const char* parameters : {"alpha_c=0.6,alpha_s=0.2", "alpha_c=0.3,alpha_s=0.5"}) {
    const Mask larger = MaskOf(Select("sample-attention", parameters, data.View()));
    EXPECT_TRUE(IsSubset(base, larger)) << parameters;
    EXPECT_FALSE(IsSubset(larger, base)) << parameters;
  }
}

TEST(SampleAttention, JoinsBothDirections) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1500), &random);
  const Mask both = MaskOf(Select("sample-attention", "alpha_c=0.2,alpha_s=0.2", data.View()));
  EXPECT_TRUE(IsSubset(MaskOf(Select("sample-attention", "alpha_c=0.2,alpha_s=0", data.View())), both));
  EXPECT_TRUE(IsSubset(MaskOf(Select("sample-attention", "alpha_c=0,alpha_s=0.2", data.View())), both));
}

TEST(SampleAttention, FindsAPlantedColumnStripeAndNothingElse) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(1280), &random, 0.3f);
  PlantColumn(300, 8.0f, 0, 1280, &data);
  EXPECT_EQ(MaskOf(Select("sample-attention", "alpha_c=0.8,alpha_s=0", data.View())),
            MaskWhere(data.View(), [](int, int column) { return column / 128 == 2; }));
}

TEST(SampleAttention, FindsAPlantedDiagonalStripeOnBothBlockDiagonals) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(1280, 1, 1, 64), &random, 1.0f);
  PlantSlash(200, 3.0f, &data);
  EXPECT_EQ(MaskOf(Select("sample-attention", "alpha_c=0,alpha_s=0.7", data.View())),
            MaskWhere(data.View(), [](int row, int column) {
              const int distance = row / 128 - column / 128;  // offsets 128 to 255
              return distance == 1 || distance == 2;
            }));
}

TEST(SampleAttention, AStripeOfTheUpperHalfNeedsASecondChunk) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(2048), &random, 0.3f);
  PlantColumn(300, 8.0f, 0, 1024, &data);
  for (int32_t row = 1024; row < 2048; ++row) data.q.Set(0, 0, row, 0, -8.0f);  // the lower half turns away from it
  const Mask one = MaskOf(Select("sample-attention", "alpha_c=0.7,alpha_s=0", data.View()));
  const Mask two = MaskOf(Select("sample-attention", "alpha_c=0.7,alpha_s=0,chunk_n=2", data.View()));
  EXPECT_FALSE(one[1000][300]);
  EXPECT_TRUE(two[1000][300]);
  EXPECT_TRUE(two[2000][300]);
  const Mask own = MaskOf(Select("sample-attention", "alpha_c=0.7,alpha_s=0,chunk_n=2,own_rows_only=1", data.View()));
  EXPECT_TRUE(own[1000][300]);
  EXPECT_FALSE(own[2000][300]);
}

}  // namespace
}  // namespace headscope::kernels
