// SPDX-License-Identifier: Apache-2.0
// What a preview of a tile does and does not stand in for: it is drawn, striped, and no number comes from it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include "canvas_model.h"
#include "fake_workbench.h"
#include "tile_cache.h"

namespace headscope::ui {
namespace {

using analysis::TileKey;
using testing::FakeWorkbench;
using Previews = FakeWorkbench::Previews;

class PreviewedTilesTest : public ::testing::Test {
 protected:
  static constexpr int64_t kTokens = 4096;  // level 4 is one tile
  static constexpr analysis::HeadId kHead{0, 0};
  static constexpr int64_t kTileBytes = int64_t{256} * 256 * 4;

  PreviewedTilesTest() : workbench_(64) {
    std::vector<int32_t> positions(kTokens);
    std::iota(positions.begin(), positions.end(), 0);
    rows_ = CausalRows(positions, kTokens);
    cache_.SetWorkbench(&workbench_);
    cache_.SetHead(kHead, rows_);
    whole_.tiles = {4, 0, 1, 0, 1};
  }
  bool ShowsPreview() {
    const auto sample = cache_.Find({kHead, analysis::TileReduction::kMax, 4, 0, 0});
    EXPECT_NE(sample.tile, nullptr);
    return sample.tile && sample.tile->preview;
  }

  FakeWorkbench workbench_;
  CausalRows rows_;
  TileCache cache_;
  TileDemand whole_;
};

TEST_F(PreviewedTilesTest, StandsInUntilItsTileComesAndLeavesTheMemoryToIt) {
  workbench_.previews = Previews::kFirst;
  cache_.Want(whole_);
  ASSERT_EQ(workbench_.DeliverReplies(1), 1);
  EXPECT_TRUE(ShowsPreview());
  EXPECT_EQ(cache_.num_pending(), 1) << "the tile itself is still on its way";
  EXPECT_EQ(workbench_.memory().used(), kTileBytes);
  cache_.Want(whole_);
  EXPECT_EQ(workbench_.tile_requests.size(), 1u);
  ASSERT_EQ(workbench_.DeliverReplies(1), 1);
  EXPECT_FALSE(ShowsPreview());
  EXPECT_EQ(cache_.num_pending(), 0);
  EXPECT_EQ(workbench_.memory().used(), kTileBytes) << "the preview is not kept beside its tile";
}

TEST_F(PreviewedTilesTest, ALateOneDoesNotReplaceItsTile) {
  workbench_.previews = Previews::kLate;
  cache_.Want(whole_);
  ASSERT_EQ(workbench_.DeliverReplies(1), 1);
  EXPECT_FALSE(ShowsPreview());
  ASSERT_EQ(workbench_.DeliverReplies(1), 1) << "the preview comes now";
  EXPECT_FALSE(ShowsPreview());
  EXPECT_EQ(workbench_.memory().used(), kTileBytes);
}

TEST_F(PreviewedTilesTest, OneWhoseTileWasCancelledStaysAndTheTileIsAskedForAgain) {
  workbench_.previews = Previews::kFirst;
  cache_.Want(whole_);
  ASSERT_EQ(workbench_.DeliverReplies(1), 1);
  cache_.SetHead({0, 1}, rows_);
  EXPECT_EQ(workbench_.DeliverReplies(), 0) << "its tile was cancelled";
  cache_.SetHead(kHead, rows_);
  EXPECT_TRUE(ShowsPreview());
  workbench_.previews = Previews::kNone;
  cache_.Want(whole_);
  EXPECT_EQ(workbench_.tile_requests.size(), 2u);
  ASSERT_EQ(workbench_.DeliverReplies(), 1);
  EXPECT_FALSE(ShowsPreview());
}

class PreviewedMapTest : public ::testing::Test {
 protected:
  static constexpr int64_t kTokens = 200;  // one tile shows every score
  PreviewedMapTest() : workbench_(kTokens) {
    map_.SetWorkbench(&workbench_);
    map_.SetTrace(workbench_.Summary());
    map_.LayOut({800, 600});
    EXPECT_TRUE(map_.ShowHead({0, 0}));
    map_.settings().profiles = true;
  }
  void Deliver(Previews previews) {
    workbench_.previews = previews;
    map_.tiles().Want(map_.Demand(map_.view(), 1));
    workbench_.DeliverReplies();
  }
  double Readout(double row, double column) {
    map_.MoveCursor(map_.view().ColumnToX(column + 0.5), map_.view().RowToY(row + 0.5), 1);
    EXPECT_TRUE(map_.cursor().has_value());
    return map_.cursor() ? map_.cursor()->texel_log2_p : 0;
  }
  static int64_t NumKnown(const ViewProfiles& profiles) {
    const auto known = [](float value) { return !std::isnan(value); };
    return std::count_if(profiles.column_mean.begin(), profiles.column_mean.end(), known) +
           std::count_if(profiles.row_mass.begin(), profiles.row_mass.end(), known);
  }

  FakeWorkbench workbench_;
  CanvasModel map_;
};

TEST_F(PreviewedMapTest, IsDrawnAndNoNumberComesFromIt) {
  Deliver(Previews::kAlone);
  const MapPicture picture = map_.Picture(map_.view(), 1);
  ASSERT_EQ(picture.quads.size(), 1u);
  ASSERT_NE(picture.quads[0].values.tile, nullptr) << "there is something to see";
  EXPECT_TRUE(picture.quads[0].values.tile->preview);
  EXPECT_TRUE(map_.HasStandIns(1));
  EXPECT_TRUE(std::isnan(Readout(150, 97))) << "the readout";
  EXPECT_FALSE(map_.ScoreLog2(150, 97).has_value());
  EXPECT_EQ(NumKnown(map_.Profiles(map_.view(), 1)), 0);

  map_.tiles().SetHead({0, 0}, map_.rows());  // what was on its way never comes
  Deliver(Previews::kNone);
  EXPECT_FALSE(map_.HasStandIns(1));
  const double expected = std::log2(workbench_.Head(0).Probability(150, 97));
  EXPECT_NEAR(Readout(150, 97), expected, 1e-4);
  ASSERT_TRUE(map_.ScoreLog2(150, 97).has_value());
  EXPECT_EQ(NumKnown(map_.Profiles(map_.view(), 1)), 2 * kTokens);
}

}  // namespace
}  // namespace headscope::ui
