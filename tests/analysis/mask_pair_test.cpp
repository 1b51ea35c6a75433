// SPDX-License-Identifier: Apache-2.0
// Two masks of one head: every pair counted one by one beside the sweep over intervals.
#include "analysis/mask_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "analysis/head_differences.h"
#include "analysis/types/color_map.h"
#include "analysis/types/head_class.h"
#include "base/errors.h"
#include "support/stopped.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using kernels::MaskKind;
using testing::RandomHead;
using testing::RandomIndex;

// Of every pair of a head, by naive membership.
std::vector<uint8_t> KeptPairs(const HeadTensors& head, const kernels::SparseIndex& index) {
  std::vector<uint8_t> kept(static_cast<size_t>(head.num_rows * head.num_tokens), 0);
  for (int32_t row = 0; row < head.num_rows; ++row) {
    std::vector<kernels::ColumnRange> ranges;
    kernels::AppendKeptRanges(index.View(), 0, 0, row, &ranges);
    for (const auto& range : ranges) {
      for (int32_t column = range.begin; column < range.end; ++column)
        kept[static_cast<size_t>(row * head.num_tokens + column)] = 1;
    }
  }
  return kept;
}

KeptMask MaskOf(kernels::SparseIndex index, int32_t window = 0) {
  return {std::make_shared<const kernels::SparseIndex>(std::move(index)), window, nullptr};
}

TEST(MaskPair, TileAndCountAreThoseOfEveryPair) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 600, .first_row = 73}, 9);
  for (uint32_t seed = 0; seed < 4; ++seed) {
    // Other tiles and another rule on either side.
    const KeptMask first = MaskOf(RandomIndex(*head, seed % 2 == 0 ? 64 : 128, {MaskKind::kCausal, 0, 0}, 11 + seed)),
                   second = MaskOf(RandomIndex(*head, 64, {MaskKind::kCausalWindow, 70, 5}, 31 + seed));
    const std::vector<uint8_t> a = KeptPairs(*head, *first.index), b = KeptPairs(*head, *second.index);
    MaskOverlap expected;
    for (int32_t level = 0; level <= 2; ++level) {
      const int64_t step = int64_t{1} << level;
      const MaskPairTilePtr tile = ComputeMaskPairTile(first, second, {head->id, {}, level, 0, 1}, {});
      for (int64_t i = 0; i < kTileSize; ++i) {
        for (int64_t j = 0; j < kTileSize; ++j) {
          std::array<int64_t, kNumKeptBy> count{};
          int64_t pairs = 0;
          for (int64_t row = (kTileSize + i) * step; row < std::min((kTileSize + i + 1) * step, head->num_rows);
               ++row) {
            for (int64_t column = j * step; column < std::min((j + 1) * step, head->num_tokens); ++column) {
              if (column > head->row_positions[static_cast<size_t>(row)]) continue;
              const auto at = static_cast<size_t>(row * head->num_tokens + column);
              ++pairs;
              if (a[at] + b[at] > 0) ++count[a[at] == 0 ? 1 : b[at] == 0 ? 0 : 2];
            }
          }
          for (size_t by = 0; by < kNumKeptBy; ++by) {
            const int value = tile->kept[static_cast<size_t>(i * kTileSize + j) * kNumKeptBy + by];
            const double share = pairs == 0 ? 0 : 255.0 * static_cast<double>(count[by]) / static_cast<double>(pairs);
            ASSERT_NEAR(value, share, 1.0) << i << ", " << j << " level " << level << " by " << by;
            ASSERT_EQ(value == 0, count[by] == 0);
          }
        }
      }
    }
    for (int64_t row = 0; row < head->num_rows; ++row) {
      for (int64_t column = 0; column <= head->row_positions[static_cast<size_t>(row)]; ++column) {
        const auto at = static_cast<size_t>(row * head->num_tokens + column);
        ++expected.pairs;
        expected.both += a[at] & b[at];
        expected.first_alone += a[at] > b[at] ? 1 : 0;
        expected.second_alone += b[at] > a[at] ? 1 : 0;
      }
    }
    const MaskOverlap overlap = CountMaskOverlap(first, second, 2, {});
    EXPECT_EQ(overlap.pairs, expected.pairs);
    EXPECT_EQ(overlap.first_alone, expected.first_alone);
    EXPECT_EQ(overlap.second_alone, expected.second_alone);
    EXPECT_EQ(overlap.both, expected.both);
    EXPECT_GT(overlap.both, 0) << "the case says something";
    EXPECT_DOUBLE_EQ(overlap.Jaccard(),
                     static_cast<double>(expected.both) /
                         static_cast<double>(expected.both + expected.first_alone + expected.second_alone));
  }
}

TEST(MaskPair, OfAMaskAndItselfBothKeepEverything) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300}, 3);
  const KeptMask mask = MaskOf(RandomIndex(*head, 64, {MaskKind::kCausal, 0, 0}, 5));
  const MaskOverlap overlap = CountMaskOverlap(mask, mask, 1, {});
  EXPECT_EQ(overlap.first_alone, 0);
  EXPECT_EQ(overlap.second_alone, 0);
  EXPECT_EQ(overlap.both, overlap.first());
  EXPECT_EQ(overlap.Jaccard(), 1);
}

TEST(MaskPair, StepsAreComparedOnTheRowsThatTheyAreAbout) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 100}, 3);
  kernels::SparseIndexBuilder::Shape shape;
  shape.seq_q = shape.seq_k = 100;
  shape.tile_rows = 64;
  kernels::SparseIndexBuilder builder(shape);
  for (int32_t row = 0; row < 100; row += 64) {
    builder.AddRange(0, 10);
    builder.FinishList();
  }
  const KeptMask prefill = MaskOf(builder.Build());
  auto steps = std::make_shared<KeptSteps>();
  steps->first_row = 98;
  steps->steps = {{98, {0, 99}, {{0, 4}, {90, 99}}}, {99, {0, 100}, {{5, 20}}}};
  const KeptMask decode{nullptr, 0, steps};
  const MaskOverlap overlap = CountMaskOverlap(prefill, decode, 1, {});
  EXPECT_EQ(overlap.pairs, 99 + 100);
  EXPECT_EQ(overlap.first_alone, 6 + 5);
  EXPECT_EQ(overlap.second_alone, 9 + 10);
  EXPECT_EQ(overlap.both, 4 + 5);
  const MaskPairTilePtr tile = ComputeMaskPairTile(prefill, decode, {head->id, {}, 0, 0, 0}, {});
  const auto kept = [&](int64_t row, int64_t column, KeptBy by) {
    return tile->kept[static_cast<size_t>(row * kTileSize + column) * kNumKeptBy + static_cast<size_t>(by)];
  };
  EXPECT_EQ(kept(50, 3, KeptBy::kFirstAlone), 0) << "no step";
  EXPECT_EQ(kept(98, 3, KeptBy::kBoth), 255);
  EXPECT_EQ(kept(98, 5, KeptBy::kFirstAlone), 255);
  EXPECT_EQ(kept(99, 19, KeptBy::kSecondAlone), 255);
}

TEST(MaskPair, PairsOfALongHeadAreCountedIn64Bits) {
  constexpr int32_t kLength = 131072;
  kernels::SparseIndexBuilder::Shape shape;
  shape.seq_q = shape.seq_k = kLength;
  kernels::SparseIndexBuilder builder(shape);
  for (int32_t row = 0; row < kLength; row += 128) {
    builder.AddRange(0, kLength);
    builder.FinishList();
  }
  const KeptMask mask = MaskOf(builder.Build());
  const MaskOverlap overlap = CountMaskOverlap(mask, mask, 0, {});
  EXPECT_EQ(overlap.both, int64_t{kLength} * (kLength + 1) / 2);
  EXPECT_EQ(overlap.pairs, overlap.both);
}

TEST(MaskPair, StoppedCountsAreThrownAway) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300}, 1);
  const KeptMask mask = MaskOf(RandomIndex(*head, 64, {MaskKind::kCausal, 0, 0}, 5));
  EXPECT_THROW(ComputeMaskPairTile(mask, mask, {head->id, {}, 0, 0, 0}, StoppedToken()), CancelledError);
  EXPECT_THROW(CountMaskOverlap(mask, mask, 1, StoppedToken()), CancelledError);
}

// Machado, Oliveira and Fernandes 2009, severity 1: what eyes without one kind of cone see, on linear light. The least
// distance between two of the colours for any eyes.
double LeastDistance(const std::vector<Rgb>& colors) {
  using Matrix = std::array<std::array<double, 3>, 3>;
  constexpr Matrix kAllCones{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  constexpr Matrix kProtan{
      {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}};
  constexpr Matrix kDeutan{
      {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};
  constexpr Matrix kTritan{
      {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}};
  double least = 1e9;
  for (const Matrix& eyes : {kAllCones, kProtan, kDeutan, kTritan}) {
    std::vector<std::array<double, 3>> seen;
    for (const Rgb& color : colors) {
      const std::array<double, 3> light = {std::pow(color.red / 255.0, 2.2), std::pow(color.green / 255.0, 2.2),
                                           std::pow(color.blue / 255.0, 2.2)};
      std::array<double, 3> of{};
      for (size_t i = 0; i < 3; ++i) {
        for (size_t j = 0; j < 3; ++j) of[i] += eyes[i][j] * light[j];
        of[i] = 255 * std::pow(std::clamp(of[i], 0.0, 1.0), 1 / 2.2);
      }
      seen.push_back(of);
    }
    for (size_t a = 0; a < seen.size(); ++a) {
      for (size_t b = 0; b < a; ++b)
        least = std::min(least, std::hypot(seen[a][0] - seen[b][0], seen[a][1] - seen[b][1], seen[a][2] - seen[b][2]));
    }
  }
  return least;
}

TEST(MaskPair, ItsColoursStayApartForColourBlindEyes) {
  EXPECT_GT(LeastDistance({std::begin(kKeptByColors), std::end(kKeptByColors)}), 55);
}

TEST(HeadClasses, TheirColoursStayApartForColourBlindEyes) {
  std::vector<Rgb> colors;
  for (const HeadClassInfo& one : kHeadClasses) colors.push_back(one.color);
  EXPECT_GT(LeastDistance(colors), 55);
}

// A value is read off the bar by its colour: those an eighth of a map's range apart, of the maps that start with the
// window and are offered for such eyes.
TEST(ColorMaps, AnEighthOfTheRangeIsSeenByColourBlindEyes) {
  for (const char* name : {"viridis", "cividis", "magma", "inferno"}) {
    const ColorMap* const map = FindColorMap(name);
    ASSERT_NE(map, nullptr) << name;
    std::vector<Rgb> colors;
    for (int step = 0; step <= 8; ++step) colors.push_back(ColorAt(map->palette, step / 8.0));
    EXPECT_GT(LeastDistance(colors), 15) << name;
  }
}

TEST(HeadDifferences, AreTheSecondLessTheFirstOfHeadsThatBothHold) {
  HeadStatistics here, there, alone;
  here.id = there.id = {1, 2};
  alone.id = {1, 3};
  here.entropy = 2;
  there.entropy = 3.5;
  MetricInfo entropy;
  entropy.name = "entropy";
  const auto differences = DifferencesOf({here, alone}, {there}, {Metrics().front(), entropy});
  ASSERT_EQ(differences.size(), 2U);
  EXPECT_EQ(differences[1].head, (HeadId{1, 2}));
  EXPECT_DOUBLE_EQ(differences[1].Difference(), 1.5);
  EXPECT_THAT(DifferencesCsv(differences), ::testing::HasSubstr("1,2,entropy,2,3.5,1.5\n"));
  EXPECT_THAT(DifferencesJson({"a", "b"}, differences), ::testing::HasSubstr("\"headscope-diff-1\""));
}

}  // namespace
}  // namespace headscope::analysis
