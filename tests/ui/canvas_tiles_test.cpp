// SPDX-License-Identifier: Apache-2.0
// Tiles and masks on their way: what is requested in which order, what is cancelled, what stands in meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>

#include "canvas_model.h"
#include "canvas_renderer.h"
#include "fake_workbench.h"
#include "kept_text.h"
#include "lru_cache.h"
#include "map_overlay.h"
#include "method_trial.h"
#include "tile_cache.h"

namespace headscope::ui {
namespace {

using analysis::TileKey;
using testing::FakeWorkbench;

TEST(LruCacheTest, DropsTheLeastRecentlyUsedByBytes) {
  LruCache<int, std::string> cache(100);
  cache.Put(1, "one", 40);
  cache.Put(2, "two", 40);
  ASSERT_NE(cache.Find(1), nullptr);
  cache.Put(3, "three", 40);
  EXPECT_TRUE(cache.Contains(1));
  EXPECT_FALSE(cache.Contains(2));
  EXPECT_EQ(cache.bytes(), 80);
  cache.Put(1, "uno", 10);
  EXPECT_EQ(*cache.Find(1), "uno");
  EXPECT_EQ(cache.bytes(), 50);
}

TEST(LruCacheTest, KeepsPinnedEntriesAndTheNewestHoweverLarge) {
  LruCache<int, int> cache(100);
  cache.Put(1, 1, 60, true);
  cache.Put(2, 2, 60);
  cache.Put(3, 3, 60);
  EXPECT_TRUE(cache.Contains(1));
  EXPECT_FALSE(cache.Contains(2));
  EXPECT_TRUE(cache.Contains(3));
  cache.Put(4, 4, 1000);
  EXPECT_TRUE(cache.Contains(4));
  cache.Erase(1);
  cache.Put(5, 5, 10);
  EXPECT_FALSE(cache.Contains(4));
  EXPECT_EQ(cache.bytes(), 10);
}

class TileCacheTest : public ::testing::Test {
 protected:
  static constexpr int64_t kTokens = 4096;  // level 4 is one tile
  TileCacheTest() : workbench_(64) {
    std::vector<int32_t> positions(kTokens);
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i);
    rows_ = CausalRows(positions, kTokens);
    cache_.SetWorkbench(&workbench_);
    cache_.SetHead(kHead, rows_);
  }
  static TileDemand Demand(int32_t level, int32_t begin_x, int32_t end_x, int32_t begin_y, int32_t end_y) {
    TileDemand demand;
    demand.tiles = {level, begin_x, end_x, begin_y, end_y};
    const double tile = 256 << level;
    demand.center_column = (begin_x + end_x) * tile / 2;
    demand.center_row = (begin_y + end_y) * tile / 2;
    return demand;
  }
  static TileKey Key(int32_t level, int32_t x, int32_t y) {
    return {kHead, analysis::TileReduction::kMax, level, x, y};
  }

  static constexpr analysis::HeadId kHead{0, 0};
  FakeWorkbench workbench_;
  CausalRows rows_;
  TileCache cache_;
};

TEST_F(TileCacheTest, AsksForTheCoarsestFirstThenOutwardsFromTheCentre) {
  cache_.Want(Demand(0, 2, 7, 8, 11));
  ASSERT_EQ(workbench_.tile_requests.size(), 1u + 5 * 3);
  EXPECT_EQ(workbench_.tile_requests[0].key, Key(4, 0, 0));
  EXPECT_EQ(workbench_.tile_requests[1].key, Key(0, 4, 9));
  for (size_t i = 1; i < workbench_.tile_requests.size(); ++i) {
    EXPECT_LE(workbench_.tile_requests[i].priority, workbench_.tile_requests[i - 1].priority);
  }
  cache_.Want(Demand(0, 2, 7, 8, 11));
  EXPECT_EQ(workbench_.tile_requests.size(), 16u) << "what is on its way is not asked for again";
}

TEST_F(TileCacheTest, NothingAboveTheDiagonalIsAskedFor) {
  cache_.Want(Demand(0, 0, 16, 0, 16));
  for (const auto& request : workbench_.tile_requests) EXPECT_LE(request.key.x, request.key.y);
  EXPECT_EQ(workbench_.tile_requests.size(), 1u + 16 * 17 / 2);
}

TEST_F(TileCacheTest, AnotherViewCancelsWhatNobodyWants) {
  cache_.Want(Demand(0, 0, 4, 8, 12));
  EXPECT_EQ(workbench_.num_cancelled_tile_batches, 0);
  cache_.Want(Demand(0, 1, 5, 8, 12));  // a small pan lets four stale requests run
  EXPECT_EQ(workbench_.num_cancelled_tile_batches, 0);
  EXPECT_EQ(cache_.num_pending(), 1 + 16 + 4);
  cache_.Want(Demand(2, 0, 2, 2, 4));
  EXPECT_EQ(workbench_.num_cancelled_tile_batches, 1);
  EXPECT_EQ(cache_.num_pending(), 1 + 4) << "the coarsest is asked for again";
  EXPECT_EQ(workbench_.DeliverReplies(), 5);
  EXPECT_EQ(cache_.num_pending(), 0);
  EXPECT_EQ(cache_.Find(Key(0, 1, 9)).levels_coarser, 2) << "a cancelled tile never came";
}

TEST_F(TileCacheTest, NearestCoarserTileStandsIn) {
  EXPECT_EQ(cache_.Find(Key(1, 3, 5)).tile, nullptr);
  cache_.Want(Demand(1, 3, 4, 5, 6));
  ASSERT_EQ(workbench_.DeliverReplies(1), 1);
  auto sample = cache_.Find(Key(1, 3, 5));
  ASSERT_NE(sample.tile, nullptr);
  EXPECT_EQ(sample.levels_coarser, 3);
  EXPECT_EQ(sample.tile->key, Key(4, 0, 0));
  EXPECT_FLOAT_EQ(sample.u_begin, 3 / 8.0f);
  EXPECT_FLOAT_EQ(sample.u_end, 4 / 8.0f);
  EXPECT_FLOAT_EQ(sample.v_begin, 5 / 8.0f);
  EXPECT_FLOAT_EQ(sample.v_end, 6 / 8.0f);
  ASSERT_EQ(workbench_.DeliverReplies(), 1);
  sample = cache_.Find(Key(1, 3, 5));
  EXPECT_EQ(sample.levels_coarser, 0);
  EXPECT_EQ(sample.u_end, 1);
}

TEST_F(TileCacheTest, OldMaskStaysUntilTheNewOneIsThere) {
  const auto values = [&](double window) {
    kernels::ParameterValues result(workbench_.methods()[1]);
    EXPECT_EQ(result.Set(workbench_.methods()[1], "window", window), "");
    return result;
  };
  std::vector<int64_t> ids;
  const auto request = [&](double window) {
    workbench_.RequestMask(
        MapView::kFirst, kHead, "band", values(window), [&](LiveMask mask) { ids.push_back(mask.mask_id); },
        [](std::string) {});
    workbench_.DeliverReplies();
  };
  TileDemand demand = Demand(1, 1, 2, 3, 4);
  demand.mask = true;
  request(8);
  cache_.SetMask(ids.back());
  cache_.Want(demand);
  workbench_.DeliverReplies();
  const auto first = cache_.FindMask(Key(1, 1, 3));
  ASSERT_NE(first.tile, nullptr);
  EXPECT_FALSE(first.from_old_mask);
  request(16);
  cache_.SetMask(ids.back());
  cache_.Want(demand);
  EXPECT_EQ(cache_.FindMask(Key(1, 1, 3)).tile, first.tile);
  EXPECT_TRUE(cache_.FindMask(Key(1, 1, 3)).from_old_mask);
  workbench_.DeliverReplies();
  EXPECT_NE(cache_.FindMask(Key(1, 1, 3)).tile, first.tile);
  EXPECT_FALSE(cache_.FindMask(Key(1, 1, 3)).from_old_mask);
  cache_.SetMask(0);
  EXPECT_EQ(cache_.FindMask(Key(1, 1, 3)).tile, nullptr);
}

TEST_F(TileCacheTest, RepliesToADestroyedCacheAreDropped) {
  auto cache = std::make_unique<TileCache>();
  int arrivals = 0;
  cache->SetArrivalHandler([&] { ++arrivals; });
  cache->SetWorkbench(&workbench_);
  cache->SetHead(kHead, rows_);
  cache->Want(Demand(0, 0, 1, 0, 1));
  cache.reset();
  workbench_.DeliverReplies();
  EXPECT_EQ(arrivals, 0);
}

class MethodTrialTest : public ::testing::Test {
 protected:
  MethodTrialTest() : workbench_(128) {
    QObject::connect(&trial_, &MethodTrial::MethodChanged, [this] { ++num_changes_; });
    QObject::connect(&trial_, &MethodTrial::MaskReady, [this](const LiveMask& mask) { masks_.push_back(mask); });
    QObject::connect(&trial_, &MethodTrial::RunProgressed,
                     [this](const ProgressReport& report) { stages_.push_back(report.stage); });
    QObject::connect(&trial_, &MethodTrial::RunFinished, [this] { ++num_results_; });
    QObject::connect(&trial_, &MethodTrial::RunFailed,
                     [this](const QString& message) { failures_.push_back(message.toStdString()); });
    trial_.SetWorkbench(&workbench_);
    trial_.SetHead(analysis::HeadId{0, 1});
  }
  FakeWorkbench workbench_;
  MethodTrial trial_;
  std::vector<LiveMask> masks_;
  std::vector<std::string> failures_, stages_;
  int num_changes_ = 0, num_results_ = 0;
};

TEST_F(MethodTrialTest, OffersEachNameOncePrefillFirstAndStartsWithTheFirstSparseOne) {
  ASSERT_EQ(trial_.methods().size(), 3u) << "dense decode is the baseline of decode runs, not a choice";
  EXPECT_EQ(trial_.methods()[2].name, "newest");
  EXPECT_EQ(trial_.method()->name, "band");
  EXPECT_FALSE(trial_.is_decode());
}

TEST_F(MethodTrialTest, StepsThroughTheMethodsRoundTheEnds) {
  trial_.StepMethod(1);
  EXPECT_EQ(trial_.method()->name, "newest");
  trial_.StepMethod(1);
  EXPECT_EQ(trial_.method()->name, "dense");
  trial_.StepMethod(-1);
  EXPECT_EQ(trial_.method()->name, "newest");
}

// A decode method's mask is about its steps: the last rows of 128.
TEST_F(MethodTrialTest, ADecodeMethodKeepsKeysOfTheLastRows) {
  workbench_.DeliverReplies();
  masks_.clear();
  ASSERT_TRUE(trial_.SelectMethod("newest"));
  EXPECT_TRUE(trial_.is_decode());
  workbench_.DeliverReplies();
  ASSERT_EQ(masks_.size(), 1u);
  ASSERT_NE(masks_[0].steps, nullptr);
  EXPECT_EQ(masks_[0].steps->first_row, 128 - FakeWorkbench::kSteps);
  EXPECT_EQ(masks_[0].kept_mass.size(), static_cast<size_t>(FakeWorkbench::kSteps));
}

// A mask on its way is finished and shown, what was dragged over meanwhile is left out, the last value always comes.
TEST_F(MethodTrialTest, ASliderThatOutrunsItsMasksShowsSomeAndEndsOnTheLast) {
  workbench_.DeliverReplies();
  masks_.clear();
  const int requests = workbench_.num_mask_requests;
  for (const double window : {8, 9, 10}) ASSERT_TRUE(trial_.SetValue("window", window));
  EXPECT_EQ(num_changes_, 3);
  EXPECT_TRUE(trial_.mask_pending());
  EXPECT_EQ(workbench_.DeliverReplies(1), 1);
  EXPECT_TRUE(trial_.mask_pending()) << "the numbers on show are those of a value that was dragged over";
  workbench_.DeliverReplies();
  EXPECT_FALSE(trial_.mask_pending());
  EXPECT_EQ(workbench_.num_mask_requests, requests + 2);
  ASSERT_EQ(masks_.size(), 2u);
  // The newest keys and the 4 first ones of 128: min(row + 1, window + 4) of row's keys.
  for (const auto& [mask, window] : {std::pair<size_t, int64_t>{0, 8}, {1, 10}}) {
    int64_t kept = 0;
    for (int64_t row = 0; row < 128; ++row) kept += std::min<int64_t>(row + 1, window + 4);
    EXPECT_DOUBLE_EQ(masks_[mask].summary.kept_fraction, static_cast<double>(kept) / (128 * 129 / 2));
  }
}

TEST_F(MethodTrialTest, AnotherHeadDoesNotWaitForTheMaskOfTheOneBefore) {
  workbench_.DeliverReplies();
  masks_.clear();
  ASSERT_TRUE(trial_.SetValue("window", 8));
  const int requests = workbench_.num_mask_requests;
  trial_.SetHead(analysis::HeadId{0, 0});
  EXPECT_EQ(workbench_.num_mask_requests, requests + 1);
  workbench_.DeliverReplies();
  ASSERT_EQ(masks_.size(), 1u);
  EXPECT_EQ(masks_[0].summary.head, (analysis::HeadId{0, 0}));
}

TEST_F(MethodTrialTest, IllegalValuesChangeNothing) {
  const int requests = workbench_.num_mask_requests;
  EXPECT_FALSE(trial_.SetValue("window", 0));
  EXPECT_FALSE(trial_.SetValue("no_such", 1));
  EXPECT_FALSE(trial_.SelectMethod("no_such"));
  EXPECT_TRUE(trial_.SetValue("window", 64)) << "the present value";
  EXPECT_EQ(workbench_.num_mask_requests, requests);
  EXPECT_EQ(num_changes_, 0);
}

TEST_F(MethodTrialTest, AMethodRemembersItsParameters) {
  ASSERT_TRUE(trial_.SetValue("window", 12));
  ASSERT_TRUE(trial_.SelectMethod("dense"));
  EXPECT_TRUE(trial_.values().values().empty());
  ASSERT_TRUE(trial_.SelectMethod("band"));
  EXPECT_EQ(trial_.values().Integer("window"), 12);
  trial_.ResetToDefaults();
  EXPECT_EQ(trial_.values().Integer("window"), 64);
}

TEST_F(MethodTrialTest, ErrorsAreKeptAndTheNextRequestClearsThem) {
  workbench_.fail_next_mask = true;
  ASSERT_TRUE(trial_.SetValue("window", 5));
  workbench_.DeliverReplies();
  EXPECT_THAT(trial_.mask_error(), ::testing::HasSubstr("raise the window"));
  EXPECT_FALSE(trial_.mask());
  ASSERT_TRUE(trial_.SetValue("window", 6));
  workbench_.DeliverReplies();
  EXPECT_EQ(trial_.mask_error(), "");
  EXPECT_TRUE(trial_.mask());
}

TEST_F(MethodTrialTest, RunsReportCancelAndFail) {
  workbench_.DeliverReplies();
  ASSERT_TRUE(trial_.Run(4));
  EXPECT_FALSE(trial_.Run(4)) << "one run at a time";
  EXPECT_EQ(workbench_.DeliverReplies(1), 1);
  EXPECT_DOUBLE_EQ(trial_.progress().fraction, 0.5);
  EXPECT_THAT(stages_, ::testing::ElementsAre("dense attends, 1 of 2"));
  workbench_.DeliverReplies();
  EXPECT_EQ(num_results_, 1);
  EXPECT_FALSE(trial_.running());
  ASSERT_TRUE(trial_.result());
  EXPECT_EQ(trial_.result()->attend.repeats, 4);

  ASSERT_TRUE(trial_.Run(1));
  trial_.CancelRun();
  workbench_.DeliverReplies();
  EXPECT_EQ(num_results_, 1) << "a cancelled run brings nothing";

  workbench_.fail_next_run = true;
  ASSERT_TRUE(trial_.Run(1));
  workbench_.DeliverReplies();
  EXPECT_THAT(failures_, ::testing::ElementsAre(::testing::HasSubstr("out of memory")));
}

TEST_F(MethodTrialTest, NoMaskIsAskedForWhileNobodyLooks) {
  workbench_.DeliverReplies();
  trial_.SetMaskWanted(this, false);
  const int requests = workbench_.num_mask_requests;
  ASSERT_TRUE(trial_.SetValue("window", 20));
  EXPECT_EQ(workbench_.num_mask_requests, requests);
  EXPECT_FALSE(trial_.mask()) << "the old mask belongs to other parameters";
  trial_.SetMaskWanted(this, true);
  EXPECT_EQ(workbench_.num_mask_requests, requests + 1);
}

TEST(ParameterStepTest, StepsFollowTheSpec) {
  const kernels::ParameterSpec factor{
      .name = "window", .default_value = 64, .minimum = 1, .maximum = 4096, .step = 2, .logarithmic = true};
  EXPECT_EQ(SteppedValue(factor, 64, +1), 128);
  EXPECT_EQ(SteppedValue(factor, 64, -1), 32);
  EXPECT_EQ(SteppedValue(factor, 3000, +1), 4096);
  EXPECT_EQ(SteppedValue(factor, 1, -1), 1);
  // The registry's steps of logarithmic parameters count tokens; they are no factors.
  const kernels::ParameterSpec tokens{
      .name = "n", .default_value = 4096, .minimum = 1, .maximum = 1 << 20, .step = 64, .logarithmic = true};
  EXPECT_EQ(SteppedValue(tokens, 4096, -1), 2048);
  EXPECT_EQ(SteppedValue(tokens, 4096, +1), 8192);
  const kernels::ParameterSpec share{
      .name = "share", .type = kernels::ParameterType::kReal, .default_value = 0.5, .step = 0.05};
  EXPECT_NEAR(SteppedValue(share, 0.5, +1), 0.55, 1e-12);
  EXPECT_NEAR(SnappedValue(share, 0.512), 0.5, 1e-12);
  EXPECT_EQ(SnappedValue(share, 7), 1);
  EXPECT_EQ(SnappedValue(share, std::nan("")), 0.5);
}

// The model's cursor reads the same score that the formula gives, and what the mask keeps there.
TEST(CanvasModelTest, CursorReadsScoreTexelAndMask) {
  FakeWorkbench workbench(600);
  CanvasModel model;
  QObject::connect(&model.trial(), &MethodTrial::Changed, [&] { model.MaskChanged(); });
  model.SetWorkbench(&workbench);
  model.SetTrace(workbench.Summary());
  EXPECT_FALSE(model.ShowHead({3, 0})) << "not recorded";
  ASSERT_TRUE(model.ShowHead({0, 1}));
  EXPECT_EQ(model.kv_head(), 0);
  model.LayOut({400, 330});
  workbench.DeliverReplies();
  model.tiles().Want(model.Demand(model.view(), 1));
  workbench.DeliverReplies();
  const int32_t level = model.view().Level(1);
  ASSERT_GT(level, 0);
  for (const auto& [row, column] : {std::pair<int, int>{400, 390}, {500, 60}, {30, 400}}) {
    model.MoveCursor(model.view().ColumnToX(column + 0.5), model.view().RowToY(row + 0.5), 1);
    ASSERT_TRUE(model.cursor());
    const CursorScore& score = *model.cursor();
    EXPECT_EQ(score.row, row);
    EXPECT_EQ(score.column, column);
    if (column > row) {
      EXPECT_FALSE(score.exact.causal);
      continue;
    }
    EXPECT_DOUBLE_EQ(score.exact.probability, workbench.Head(1).Probability(row, column));
    EXPECT_EQ(score.texel_scores, 1 << level);
    EXPECT_GE(score.texel_log2_p, std::log2(score.exact.probability) - 1e-4) << "the largest of the texel";
    EXPECT_NEAR(score.kept_share, row - column < 60 ? 1 : 0, 0.01);
  }
  EXPECT_TRUE(model.LeaveMap());
  EXPECT_FALSE(model.cursor());
}

class CanvasModelOfDecode : public ::testing::Test {
 protected:
  void Open(int64_t num_decode_rows) {
    workbench_.num_decode_rows = num_decode_rows;
    QObject::connect(&model_.trial(), &MethodTrial::Changed, [this] { model_.MaskChanged(); });
    model_.SetWorkbench(&workbench_);
    model_.SetTrace(workbench_.Summary());
    ASSERT_TRUE(model_.ShowHead({0, 1}));
    ASSERT_TRUE(model_.trial().SelectMethod("newest"));
    model_.LayOut({900, 700});
    workbench_.DeliverReplies();
    ASSERT_TRUE(model_.trial().mask());
  }
  FakeWorkbench workbench_{600};
  CanvasModel model_;
};

TEST_F(CanvasModelOfDecode, SaysWhichQueriesAreTheSteps) {
  Open(0);
  EXPECT_EQ(DescribeSteps(model_, *model_.trial().mask()->steps),
            "no decode steps in this trace: on its last 16 queries, 584 to 599");
  Open(16);
  EXPECT_EQ(DescribeSteps(model_, *model_.trial().mask()->steps), "on the trace's 16 decode steps, queries 584 to 599");
  Open(100);
  EXPECT_EQ(DescribeSteps(model_, *model_.trial().mask()->steps),
            "on the newest 16 of 100 decode steps, queries 584 to 599");
  EXPECT_THAT(CaptionOf(model_, model_.view()).Legend(), ::testing::HasSubstr("of 100 decode steps"));
}

TEST_F(CanvasModelOfDecode, MassAndCursorSpeakOfTheStepsOnly) {
  Open(0);
  const std::vector<float>& mass = model_.trial().mask()->kept_mass;
  EXPECT_EQ(model_.LeastKeptMass(0, 584), std::nullopt);
  EXPECT_EQ(model_.LeastKeptMass(584, 585), mass[0]);
  EXPECT_EQ(model_.LeastKeptMass(0, 600), *std::min_element(mass.begin(), mass.end()));
  EXPECT_EQ(model_.LeastKeptMass(599, 700), mass[15]);
  model_.view().ZoomTo({560, 600, 560, 600});
  model_.tiles().Want(model_.Demand(model_.view(), 1));
  workbench_.DeliverReplies();
  const auto kept_share = [&](int64_t row, int64_t column) {
    model_.MoveCursor(model_.view().ColumnToX(static_cast<double>(column) + 0.5),
                      model_.view().RowToY(static_cast<double>(row) + 0.5), 1);
    return model_.cursor()->kept_share;
  };
  EXPECT_EQ(kept_share(590, 589), 1);
  EXPECT_EQ(kept_share(599, 567), 0) << "33 keys back";
  EXPECT_TRUE(std::isnan(kept_share(583, 565))) << "no step, nothing said";
}

// The tooltip never calls a key visible that the model's own window has left behind.
TEST_F(CanvasModelOfDecode, KeysBehindTheModelsWindowAreNotVisible) {
  workbench_.model_window = 100;
  Open(0);
  const auto tooltip = [&](int64_t row, int64_t column) {
    model_.MoveCursor(model_.view().ColumnToX(static_cast<double>(column) + 0.5),
                      model_.view().RowToY(static_cast<double>(row) + 0.5), 1);
    return DescribeScore(model_, *model_.cursor());
  };
  EXPECT_THAT(tooltip(500, 401), ::testing::HasSubstr("p = "));
  EXPECT_THAT(tooltip(500, 400), ::testing::HasSubstr("outside the model's window"));
  EXPECT_THAT(tooltip(500, 400), ::testing::Not(::testing::HasSubstr("p = ")));
  EXPECT_THAT(tooltip(500, 501), ::testing::HasSubstr("the key comes later"));
}

TEST(CanvasModelTest, TheMapOfTheHeadBeforeStaysInGreyUntilTheNextOneComes) {
  FakeWorkbench workbench(600);
  CanvasModel model;
  model.SetWorkbench(&workbench);
  model.SetTrace(workbench.Summary());
  model.LayOut({900, 700});
  model.ShowHead({0, 0});
  model.tiles().Want(model.Demand(model.view(), 1));
  EXPECT_FALSE(model.Picture(model.view(), 1).stale) << "there is none before";
  workbench.DeliverReplies();
  ASSERT_FALSE(model.Picture(model.view(), 1).stale);
  model.ShowHead({0, 1});
  const MapPicture stale = model.Picture(model.view(), 1);
  EXPECT_TRUE(stale.stale);
  ASSERT_EQ(stale.quads.size(), 1U);
  EXPECT_EQ(stale.quads[0].values.tile->key.head, (analysis::HeadId{0, 0}));
  model.tiles().Want(model.Demand(model.view(), 1));
  workbench.DeliverReplies();
  const MapPicture fresh = model.Picture(model.view(), 1);
  EXPECT_FALSE(fresh.stale);
  for (const MapQuad& quad : fresh.quads) {
    if (!quad.values.tile) continue;
    EXPECT_EQ(quad.values.tile->key.head, (analysis::HeadId{0, 1}));
  }
}

TEST(CanvasModelTest, CaptionSaysWhatAPictureShows) {
  FakeWorkbench workbench(600);
  CanvasModel model;
  model.SetWorkbench(&workbench);
  model.SetTrace(workbench.Summary());
  const auto caption = [&model] { return CaptionOf(model, model.view()); };
  EXPECT_EQ(caption().Legend() + caption().title + caption().source, "") << "no head, no caption";
  ASSERT_TRUE(model.ShowHead({0, 1}));
  model.LayOut({900, 700});
  workbench.DeliverReplies();
  ASSERT_TRUE(model.trial().mask());
  model.view().ZoomTo({100, 200, 50, 150});
  const ScoreRect visible = model.view().Visible();
  EXPECT_THAT(caption().title, ::testing::HasSubstr("layer 0, head 1 (KV head 0)"));
  EXPECT_THAT(caption().source, ::testing::HasSubstr("synthetic, 600 tokens: queries " +
                                                     std::to_string(static_cast<int64_t>(visible.row_begin)) + " to "));
  std::string text = caption().Legend();
  EXPECT_THAT(text, ::testing::HasSubstr("largest of a pixel's scores, logarithmic"));
  EXPECT_THAT(text, ::testing::HasSubstr("Band with sinks (window=64,sinks=4"));
  EXPECT_THAT(text, ::testing::HasSubstr("Grey: left out"));
  EXPECT_THAT(text, ::testing::HasSubstr("5th percentile"));
  std::array<char, 32> kept{};
  std::snprintf(kept.data(), kept.size(), "%.2f %%", 100 * model.trial().mask()->summary.kept_fraction);
  EXPECT_THAT(text, ::testing::HasSubstr(kept.data()));
  model.settings().logarithmic = false;
  model.settings().reduction = analysis::TileReduction::kMean;
  model.settings().overlay = false;
  text = caption().Legend();
  EXPECT_THAT(text, ::testing::HasSubstr("mean of a pixel's scores, linear"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("Grey")));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("blue")));
}

// Of a trace of the last queries the map is wider than high, and is laid out as such.
TEST(CanvasModelTest, AMapOfTheLastQueriesHasTheWidthThatASquareOneLeaves) {
  FakeWorkbench workbench(600);
  CanvasModel model;
  model.SetWorkbench(&workbench);
  EXPECT_EQ(model.Parts().aspect, 1) << "no map";
  TraceSummary trace = workbench.Summary();
  model.SetTrace(trace);
  EXPECT_EQ(model.Parts().aspect, 1);
  const double width = model.LayOut({1400, 800}).map.width;
  trace.row_positions.assign(16, 0);
  std::iota(trace.row_positions.begin(), trace.row_positions.end(), 600 - 16);
  trace.num_rows = 16;
  model.SetTrace(trace);
  EXPECT_EQ(model.Parts().aspect, 37.5);
  EXPECT_GT(model.LayOut({1400, 800}).map.width, width + 108);
  EXPECT_EQ(model.LayOut({1400, 800}).row_profile.width, 52);
  model.view().SetExtent(600, 600);
  EXPECT_EQ(model.Parts().aspect, 1) << "beside a map that is larger it shows what that one does";
}

// A picture as wide as the map needs: a square map in a wide window leaves no blank half.
TEST(CanvasModelTest, PicturesFitTheirMaps) {
  FakeWorkbench workbench(600);
  CanvasModel model;
  model.SetWorkbench(&workbench);
  model.SetTrace(workbench.Summary());
  ASSERT_TRUE(model.ShowHead({0, 0}));
  const auto map_of = [&](QSize size) {
    return LayOutCanvas(size.width(), size.height(), model.PictureParts(size.width())).map;
  };
  for (const QSize window : {QSize(1800, 800), QSize(900, 1400), QSize(1300, 1000)}) {
    model.LayOut(window);
    const PixelRect map = map_of(model.PictureSize());
    const double side = std::min(model.layout().map.width, model.layout().map.height);
    EXPECT_NEAR(map.width, side, 1) << window.width();
    EXPECT_NEAR(map.height, side, 1) << window.width();
  }
  // Zoomed in, the map takes all of its room.
  model.LayOut({1800, 800});
  model.view().ZoomTo({100, 110, 50, 60});
  const PixelRect map = map_of(model.PictureSize());
  EXPECT_NEAR(map.width, model.layout().map.width, 1);
  EXPECT_NEAR(map.height, model.layout().map.height, 1);
}

}  // namespace
}  // namespace headscope::ui
