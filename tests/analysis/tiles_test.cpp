// SPDX-License-Identifier: Apache-2.0
#include "analysis/tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <stop_token>
#include <vector>

#include "analysis/thumbnail.h"
#include "analysis/types/tile.h"
#include "base/errors.h"
#include "support/stopped.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using testing::AllProbabilities;
using testing::RandomHead;
using testing::RandomHeadShape;
using testing::RandomIndex;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr TileReduction kMaxima[] = {TileReduction::kMax};

// What a texel of any tile must be, from all probabilities; of a preview, from those of every row_step-th row.
float ExpectedTexel(const HeadTensors& head, const std::vector<double>& p, const TileKey& key, int64_t i, int64_t j,
                    int64_t row_step) {
  const int64_t step = int64_t{1} << key.level;
  double sum = 0, largest = 0;
  int64_t pairs = 0;
  for (int64_t row = (key.y * 256 + i) * step; row < std::min((key.y * 256 + i + 1) * step, head.num_rows); ++row) {
    if (row % row_step != row_step - 1) continue;
    const kernels::ColumnRange attended = head.AttendedColumns(row);
    for (int64_t column = (key.x * 256 + j) * step; column < (key.x * 256 + j + 1) * step; ++column) {
      if (column < attended.begin || column >= attended.end) continue;
      ++pairs;
      sum += p[static_cast<size_t>(row * head.num_tokens + column)];
      largest = std::max(largest, p[static_cast<size_t>(row * head.num_tokens + column)]);
    }
  }
  if (pairs == 0) return kMinusInfinity;
  return static_cast<float>(
      std::log2(key.reduction == TileReduction::kMax ? largest : sum / static_cast<double>(pairs)));
}

void ExpectTile(const HeadTensors& head, const std::vector<double>& p, const TileData& tile, int64_t row_step = 1) {
  for (int64_t i = 0; i < 256; ++i) {
    for (int64_t j = 0; j < 256; ++j) {
      const float expected = ExpectedTexel(head, p, tile.key, i, j, row_step);
      const float actual = tile.log2_p[static_cast<size_t>(i * 256 + j)];
      if (std::isinf(expected)) {
        ASSERT_EQ(actual, expected) << i << ", " << j;
      } else {
        ASSERT_NEAR(actual, expected, 2e-5) << i << ", " << j << " level " << tile.key.level;
      }
    }
  }
}

class TilesOfShape : public ::testing::TestWithParam<RandomHeadShape> {};

TEST_P(TilesOfShape, EveryTexelIsTheExactMaximumOrMean) {
  const HeadTensorsPtr head = RandomHead(GetParam(), 7);
  const std::vector<double> p = AllProbabilities(*head);
  for (const TileReduction reduction : {TileReduction::kMax, TileReduction::kMean}) {
    for (int32_t level = 0; level <= MaxLevel(head->num_rows, head->num_tokens) + 1; ++level) {
      const TileKey key{head->id, reduction, level, 0, 0};
      ExpectTile(*head, p, *ComputeTile(*head, key, 2, {}));
    }
    ExpectTile(*head, p, *ComputeTile(*head, {head->id, reduction, 0, 1, 1}, 1, {}));
  }
}

TEST_P(TilesOfShape, PyramidGivesTheSameTilesInOnePass) {
  const HeadTensorsPtr head = RandomHead(GetParam(), 8);
  const std::vector<double> p = AllProbabilities(*head);
  std::map<TileKey, std::vector<float>> apart;
  for (const TileReduction reduction : {TileReduction::kMax, TileReduction::kMean}) {
    const std::vector<TilePtr> tiles = ComputePyramid(*head, {&reduction, 1}, 0, 2, {});
    ASSERT_FALSE(tiles.empty());
    EXPECT_EQ(tiles.back()->key.level, MaxLevel(head->num_rows, head->num_tokens));
    for (const TilePtr& tile : tiles) {
      ExpectTile(*head, p, *tile);
      apart[tile->key] = tile->log2_p;
    }
  }
  // Of both reductions, bit by bit.
  constexpr TileReduction kBoth[] = {TileReduction::kMax, TileReduction::kMean};
  std::map<TileKey, std::vector<float>> together;
  for (const TilePtr& tile : ComputePyramid(*head, kBoth, 0, 2, {})) together[tile->key] = tile->log2_p;
  EXPECT_EQ(together, apart);
}

TEST_P(TilesOfShape, PreviewTakesEveryFourthRow) {
  const HeadTensorsPtr head = RandomHead(GetParam(), 8);
  const std::vector<double> p = AllProbabilities(*head);
  for (const TileReduction reduction : {TileReduction::kMax, TileReduction::kMean}) {
    const std::vector<TilePtr> tiles = PreviewPyramid(*head, {&reduction, 1}, 2, 4, 2, {});
    ASSERT_FALSE(tiles.empty());
    for (const TilePtr& tile : tiles) {
      EXPECT_TRUE(tile->preview);
      ExpectTile(*head, p, *tile, 4);
    }
  }
  EXPECT_FALSE(ComputePyramid(*head, kMaxima, 2, 2, {}).front()->preview);
}

TEST(Tiles, OnlyLongHeadsAreWorthAPreview) {
  HeadTensors head;
  head.num_rows = head.num_tokens = 16384;
  EXPECT_EQ(PreviewRowStep(head, 3), 1);
  head.num_rows = head.num_tokens = 131072;
  const int64_t step = PreviewRowStep(head, 6);
  EXPECT_GE(step, 16);
  EXPECT_LE(step, 64) << "every texel has a row";
  EXPECT_LE(PreviewRowStep(head, 1), 2);
}

INSTANTIATE_TEST_SUITE_P(Shapes, TilesOfShape,
                         ::testing::Values(RandomHeadShape{.num_tokens = 300},
                                           RandomHeadShape{.num_tokens = 521, .first_row = 400},
                                           RandomHeadShape{.num_tokens = 290, .row_step = 3},
                                           RandomHeadShape{.num_tokens = 310, .window = 40},
                                           RandomHeadShape{.num_tokens = 257, .soft_cap = 5},
                                           RandomHeadShape{.num_tokens = 1}));

// Of an encoder's head every pair is attended to; its probabilities by the plain softmax over all keys.
TEST(Tiles, AHeadThatSeesBothDirectionsFillsItsMap) {
  const HeadTensorsPtr causal = RandomHead({.num_tokens = 70}, 17);
  HeadTensors head = *causal;
  head.bidirectional = true;
  std::vector<double> p(static_cast<size_t>(70 * 70));
  for (size_t row = 0; row < 70; ++row) {
    double sum = 0;
    for (size_t column = 0; column < 70; ++column) {
      double score = 0;
      for (size_t d = 0; d < 32; ++d)
        score += static_cast<double>(head.q[row * 32 + d]) * static_cast<double>(head.k[column * 32 + d]);
      sum += p[row * 70 + column] = std::exp(score * static_cast<double>(head.scale));
    }
    head.lse[row] = static_cast<float>(std::log(sum));
    for (size_t column = 0; column < 70; ++column) p[row * 70 + column] /= sum;
  }
  for (const TileReduction reduction : {TileReduction::kMax, TileReduction::kMean}) {
    const TilePtr tile = ComputeTile(head, {head.id, reduction, 0, 0, 0}, 1, {});
    for (size_t row = 0; row < 70; ++row) {
      for (size_t column = 0; column < 70; ++column) {
        ASSERT_NEAR(static_cast<double>(tile->log2_p[row * 256 + column]), std::log2(p[row * 70 + column]), 2e-5)
            << row << ", " << column;
      }
    }
  }
}

TEST(Tiles, MaskTileCountsExactlyTheKeptPairs) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 600, .first_row = 73}, 9);
  using kernels::MaskKind;
  uint32_t seed = 0;
  for (const kernels::ElementRule rule :
       {kernels::ElementRule{MaskKind::kCausal, 0, 0}, kernels::ElementRule{MaskKind::kCausalWindow, 70, 5},
        kernels::ElementRule{MaskKind::kNone, 0, 0}}) {
    for (const int32_t tile_rows : {64, 128}) {
      const kernels::SparseIndex index = RandomIndex(*head, tile_rows, rule, ++seed);
      std::vector<uint8_t> kept(static_cast<size_t>(head->num_rows * head->num_tokens), 0);
      for (int32_t row = 0; row < head->num_rows; ++row) {
        std::vector<kernels::ColumnRange> ranges;
        kernels::AppendKeptRanges(index.View(), 0, 0, row, &ranges);
        for (const auto& range : ranges) {
          for (int32_t column = range.begin; column < range.end; ++column)
            kept[static_cast<size_t>(row * head->num_tokens + column)] = 1;
        }
      }
      for (int32_t level = 0; level <= 2; ++level) {
        const int64_t step = int64_t{1} << level;
        const MaskTilePtr tile = ComputeMaskTile(index.View(), 0, {head->id, TileReduction::kMax, level, 0, 0});
        for (int64_t i = 0; i < 256; ++i) {
          for (int64_t j = 0; j < 256; ++j) {
            int64_t pairs = 0, count = 0;
            for (int64_t row = i * step; row < std::min((i + 1) * step, head->num_rows); ++row) {
              for (int64_t column = j * step; column < std::min((j + 1) * step, head->num_tokens); ++column) {
                if (rule.kind != MaskKind::kNone && column > head->row_positions[static_cast<size_t>(row)]) continue;
                ++pairs;
                count += kept[static_cast<size_t>(row * head->num_tokens + column)];
              }
            }
            const int value = tile->kept[static_cast<size_t>(i * 256 + j)];
            if (count == 0) {
              ASSERT_EQ(value, 0) << i << ", " << j;
            } else if (count == pairs) {
              ASSERT_EQ(value, 255) << i << ", " << j;
            } else {
              ASSERT_NEAR(value, 255.0 * static_cast<double>(count) / static_cast<double>(pairs), 1.0)
                  << i << ", " << j;
              ASSERT_GT(value, 0);
              ASSERT_LT(value, 255);
            }
          }
        }
      }
    }
  }
}

TEST(Tiles, MaskTileOfALongHeadIsCountedWithout32BitProducts) {
  constexpr int32_t kLength = 131072;
  kernels::SparseIndexBuilder::Shape shape;
  shape.seq_q = kLength;
  shape.seq_k = kLength;
  kernels::SparseIndexBuilder builder(shape);
  for (int32_t row = 0; row < kLength; row += 128) {
    builder.AddRange(0, kLength);
    builder.FinishList();
  }
  const kernels::SparseIndex index = builder.Build();
  const int32_t level = MaxLevel(kLength, kLength);
  const MaskTilePtr tile = ComputeMaskTile(index.View(), 0, {{}, TileReduction::kMean, level, 0, 0});
  for (int i = 0; i < 256; ++i) {
    for (int j = 0; j < 256; ++j) ASSERT_EQ(tile->kept[static_cast<size_t>(i * 256 + j)], j <= i ? 255 : 0);
  }
}

TEST(Tiles, StoppedOnesAreThrownAway) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300}, 1);
  const std::stop_token stopped = StoppedToken();
  EXPECT_THROW(ComputeTile(*head, {head->id, TileReduction::kMax, 0, 0, 0}, 2, stopped), CancelledError);
  EXPECT_THROW(ComputePyramid(*head, kMaxima, 0, 2, stopped), CancelledError);
  EXPECT_THROW(ComputeThumbnail(*head, 8, stopped), CancelledError);
}

TEST(Tiles, ProbabilityIsZeroWhereTheRowDoesNotAttend) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 50, .window = 10}, 2);
  EXPECT_EQ(Probability(*head, 20, 21), 0);
  EXPECT_EQ(Probability(*head, 20, 10), 0);
  EXPECT_GT(Probability(*head, 20, 11), 0);
  EXPECT_EQ(Probability(*head, 50, 0), 0);
  EXPECT_EQ(Probability(*head, 3, -1), 0);
}

TEST(TileMapping, LevelIsTheSmallestWhoseTexelCoversAPixel) {
  EXPECT_EQ(LevelForZoom(0.1, 16384, 16384), 0);
  EXPECT_EQ(LevelForZoom(1.0, 16384, 16384), 0);
  EXPECT_EQ(LevelForZoom(1.01, 16384, 16384), 1);
  EXPECT_EQ(LevelForZoom(8.0, 16384, 16384), 3);
  EXPECT_EQ(LevelForZoom(1e9, 16384, 16384), 6);
  EXPECT_EQ(LevelForZoom(std::nan(""), 16384, 16384), 0);
}

TEST(TileMapping, CoarsestLevelHoldsTheMapInOneTile) {
  EXPECT_EQ(MaxLevel(1, 1), 0);
  EXPECT_EQ(MaxLevel(256, 256), 0);
  EXPECT_EQ(MaxLevel(1, 257), 1);
  EXPECT_EQ(MaxLevel(46341, 46341), 8);
  EXPECT_EQ(MaxLevel(131072, 131072), 9);
}

// A pixel has no more than a few queries, all of which it looks at where there are no more of them.
TEST(Thumbnail, EveryPixelIsTheLargestOfItsPairs) {
  constexpr int64_t kSide = 16;
  const HeadTensorsPtr head = RandomHead({.num_tokens = 45, .window = 20}, 3);
  ASSERT_LE(head->num_rows, kSide * kThumbnailRowsPerPixel);
  const std::vector<double> p = AllProbabilities(*head);
  std::vector<double> largest(kSide * kSide, 0);
  for (int64_t row = 0; row < head->num_rows; ++row) {
    for (int64_t column = 0; column < head->num_tokens; ++column) {
      const int64_t y = row * kSide / head->num_rows, x = column * kSide / head->num_tokens;
      double& pixel = largest[static_cast<size_t>(y * kSide + x)];
      pixel = std::max(pixel, p[static_cast<size_t>(row * head->num_tokens + column)]);
    }
  }
  const std::vector<float> thumbnail = ComputeThumbnail(*head, kSide, {});
  ASSERT_EQ(thumbnail.size(), largest.size());
  for (size_t i = 0; i < thumbnail.size(); ++i) {
    if (largest[i] == 0) {
      EXPECT_EQ(thumbnail[i], kMinusInfinity) << i;
    } else {
      EXPECT_NEAR(thumbnail[i], std::log2(largest[i]), 1e-4) << i;
    }
  }
}

}  // namespace
}  // namespace headscope::analysis
