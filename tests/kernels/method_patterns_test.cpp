// What each prefill method promises of its own: planted patterns are found, limits are dense, more budget keeps more.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kept_sets.h"
#include "line_sums.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

using testing::CausalMask;
using testing::FreshSeed;
using testing::IsSubset;
using testing::Mask;
using testing::MaskOf;
using testing::ProblemShape;
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

constexpr char kNothingForced[] = ",forced_columns=0,forced_slashes=0";

TEST(VerticalSlash, FindsAPlantedColumn) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(500), &random, 0.3f);
  PlantColumn(123, 6.0f, 0, 500, &data);
  const Mask mask =
      MaskOf(Select("vertical-slash", std::string("n_vertical=1,n_slash=0") + kNothingForced, data.View()));
  EXPECT_EQ(mask, MaskWhere(data.View(), [](int, int column) { return column == 123; }));
}

TEST(VerticalSlash, FindsAPlantedDiagonalAndKeepsItsBlockRanges) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(500, 1, 1, 64), &random, 1.0f);
  PlantSlash(77, 3.0f, &data);
  const Mask mask =
      MaskOf(Select("vertical-slash", std::string("n_vertical=0,n_slash=1") + kNothingForced, data.View()));
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
  const std::string parameters = std::string("n_vertical=500,n_slash=1") + kNothingForced;
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
  const SparseIndex index =
      Select("vertical-slash", std::string("n_vertical=90,n_slash=2") + kNothingForced, data.View());
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
  const std::string parameters = std::string("n_vertical=20,n_slash=3") + kNothingForced;
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
  const Mask mask =
      MaskOf(Select("vertical-slash", "n_vertical=4,n_slash=0,forced_columns=3,forced_slashes=0", data.View()));
  EXPECT_EQ(mask, MaskWhere(data.View(), [](int, int column) { return column < 3 || column == 200; }));
}

TEST(BlockSparse, KeepsMinOfBudgetAndCausalBlocksPerRow) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(640), &random);
  const Mask mask = MaskOf(Select("block-sparse", "n_blocks=3", data.View()));
  for (size_t row = 63; row < mask.size(); row += 64) {  // a block's last row sees all of its own block
    const auto kept = std::count(mask[row].begin(), mask[row].end(), true);
    EXPECT_EQ(kept, static_cast<int64_t>(std::min<size_t>(3, row / 64 + 1) * 64)) << "row " << row;
  }
  EXPECT_EQ(MaskOf(Select("block-sparse", "n_blocks=10", data.View())), CausalMask(data.View()));
}

TEST(BlockSparse, GrowsWithItsBudget) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(700), &random);
  Mask smaller = MaskOf(Select("block-sparse", "n_blocks=1", data.View()));
  for (const char* parameters : {"n_blocks=2", "n_blocks=4", "n_blocks=7"}) {
    const Mask larger = MaskOf(Select("block-sparse", parameters, data.View()));
    EXPECT_TRUE(IsSubset(smaller, larger));
    EXPECT_FALSE(IsSubset(larger, smaller));
    smaller = larger;
  }
}

TEST(BlockSparse, DoesNotDependOnScaleCapOrTheOrderInsideABlock) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(640), &random);
  const SparseIndex expected = Select("block-sparse", "n_blocks=2", data.View());
  data.scale = 3.0f;
  data.soft_cap = 5.0f;
  EXPECT_EQ(Select("block-sparse", "n_blocks=2", data.View()).runs, expected.runs);
  for (int32_t d = 0; d < 16; ++d) {  // reverses block 4 of K
    for (int32_t i = 0; i < 32; ++i) {
      const float first = data.k.Get(0, 0, 256 + i, d);
      data.k.Set(0, 0, 256 + i, d, data.k.Get(0, 0, 319 - i, d));
      data.k.Set(0, 0, 319 - i, d, first);
    }
  }
  EXPECT_EQ(Select("block-sparse", "n_blocks=2", data.View()).runs, expected.runs);
}

// Blocks of 64 of a causal mask: block [i][j] is kept when its last row keeps its first column.
std::vector<std::vector<bool>> BlocksOf(const Mask& mask) {
  const size_t num_blocks = mask.size() / 64;
  std::vector<std::vector<bool>> blocks(num_blocks, std::vector<bool>(num_blocks));
  for (size_t i = 0; i < num_blocks; ++i) {
    for (size_t j = 0; j <= i; ++j) blocks[i][j] = mask[64 * i + 63][64 * j];
  }
  return blocks;
}

TEST(S2Attention, StrideOneAndManyLocalBlocksAreDense) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(640, 4), &random);
  EXPECT_EQ(MaskOf(Select("s2-attention", "vertical_stride=1", data.View()), 0, 2), CausalMask(data.View()));
  EXPECT_EQ(MaskOf(Select("s2-attention", "local_blocks=10", data.View()), 0, 3), CausalMask(data.View()));
}

TEST(S2Attention, HeadsTogetherSeeEverythingWhenThereAreAsManyAsTheStride) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1280, 8, 2, 8), &random);
  auto union_of_heads = [&](const std::string& parameters) {
    const SparseIndex index = Select("s2-attention", parameters, data.View());
    Mask all(1280, std::vector<bool>(1280));
    for (int32_t head = 0; head < 8; ++head) {
      const Mask mask = MaskOf(index, 0, head);
      for (size_t row = 0; row < mask.size(); ++row) {
        std::transform(mask[row].begin(), mask[row].end(), all[row].begin(), all[row].begin(), std::logical_or<>());
      }
    }
    return all;
  };
  for (const std::string sign : {"0", "1"}) {
    EXPECT_EQ(union_of_heads("vertical_stride=8,subtract_offset=" + sign), CausalMask(data.View()));
    EXPECT_EQ(union_of_heads("vertical_stride=5,offset=3,subtract_offset=" + sign), CausalMask(data.View()));
    EXPECT_NE(union_of_heads("vertical_stride=16,subtract_offset=" + sign), CausalMask(data.View()));
  }
  // Eight query heads that share two patterns cannot cover a stride of eight.
  EXPECT_NE(union_of_heads("vertical_stride=8,per_kv_head=1"), CausalMask(data.View()));
  EXPECT_EQ(union_of_heads("vertical_stride=2,per_kv_head=1"), CausalMask(data.View()));
}

TEST(S2Attention, HeadsAStrideApartAreTheSame) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(640, 7, 7, 8), &random);
  const SparseIndex index = Select("s2-attention", "vertical_stride=5", data.View());
  EXPECT_EQ(MaskOf(index, 0, 0), MaskOf(index, 0, 5));
  EXPECT_EQ(MaskOf(index, 0, 1), MaskOf(index, 0, 6));
  EXPECT_NE(MaskOf(index, 0, 0), MaskOf(index, 0, 1));
}

// A problem may hold one head of a layer: it keeps its own shard, not head 0's.
TEST(S2Attention, OneHeadAloneKeepsWhatItKeepsAmongAll) {
  std::mt19937 random(FreshSeed());
  const RandomProblem layer(SquareShape(640, 6, 3, 8), &random);
  const RandomProblem alone(SquareShape(640, 1, 1, 8), &random);
  for (const char* parameters : {"vertical_stride=5", "vertical_stride=5,per_kv_head=1",
                                 "vertical_stride=4,head_step=3,offset=2,subtract_offset=1"}) {
    const SparseIndex all = Select("s2-attention", parameters, layer.View());
    for (int32_t head = 0; head < 6; ++head) {
      AttentionProblem problem = alone.View();
      problem.first_qo_head = head;
      problem.first_kv_head = head / 2;
      EXPECT_EQ(MaskOf(Select("s2-attention", parameters, problem), 0, 0), MaskOf(all, 0, head))
          << parameters << ", head " << head;
    }
  }
}

TEST(S2Attention, KeepsLocalBlocksAndForgetsDistantOnesForGood) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1920, 3, 3, 8), &random);
  const SparseIndex index = Select("s2-attention", "local_blocks=3,vertical_stride=4,max_distance=17", data.View());
  for (int32_t head = 0; head < 3; ++head) {
    const auto blocks = BlocksOf(MaskOf(index, 0, head));
    for (size_t i = 0; i < blocks.size(); ++i) {
      for (size_t j = i < 2 ? 0 : i - 2; j <= i; ++j) EXPECT_TRUE(blocks[i][j]);
      for (size_t j = 0; j + 17 <= i; ++j) EXPECT_FALSE(blocks[i][j]);
      // A KV cache that dropped a distant block never needs it again.
      for (size_t j = 0; i + 1 < blocks.size() && j + 3 <= i; ++j) EXPECT_LE(blocks[i + 1][j], blocks[i][j]);
    }
  }
}

TEST(S2Attention, ReachesThePublishedReductionsAt8192Tokens) {
  std::mt19937 random(FreshSeed());
  const std::pair<int32_t, double> published[] = {{16, 14.32}, {64, 42.89}};
  for (const auto& [heads, reduction] : published) {
    const RandomProblem data(SquareShape(8192, heads, 1, 8), &random);
    const SparseIndex index =
        Select("s2-attention", "local_blocks=1,vertical_stride=" + std::to_string(heads), data.View());
    int64_t kept = 0;  // of the last row, over all heads
    std::vector<ColumnRange> ranges;
    for (int32_t head = 0; head < heads; ++head) AppendKeptRanges(index.View(), 0, head, 8191, &ranges);
    for (const ColumnRange& range : ranges) kept += range.end - range.begin;
    EXPECT_NEAR(8192.0 * heads / static_cast<double>(kept), reduction, 0.005);
  }
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
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_NEAR(whole.columns[i], upper.columns[i] + lower.columns[i], 1e-5);
    EXPECT_NEAR(whole.slashes[i], upper.slashes[i] + lower.slashes[i], 1e-5);
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
