// SPDX-License-Identifier: Apache-2.0
// Two maps and what a comparison shows of them: masks pair by pair, probabilities by their difference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "canvas_model.h"
#include "canvas_renderer.h"
#include "fake_workbench.h"
#include "kept_text.h"
#include "map_overlay.h"
#include "method_trial.h"

namespace headscope::ui {
namespace {

using analysis::TileKey;
using testing::FakeWorkbench;

// Two maps over one workbench, each with a trial of its own.
class ComparedMapsTest : public ::testing::Test {
 protected:
  ComparedMapsTest() : workbench_(512) {
    for (CanvasModel* map : {&first_, &second_}) {
      map->SetWorkbench(&workbench_);
      map->SetTrace(workbench_.Summary());
      map->LayOut({800, 600});
      EXPECT_TRUE(map->ShowHead({0, 0}));
    }
  }
  void SetUp() override {
    Keep(&first_, 64);
    Keep(&second_, 16);
  }
  void Keep(CanvasModel* map, int window) {
    ASSERT_TRUE(map->trial().SelectMethod("band"));
    ASSERT_TRUE(map->trial().SetValue("window", window));
    workbench_.DeliverReplies();
    map->MaskChanged();
  }
  void Settle() {
    first_.MaskChanged();
    for (int turn = 0; turn < 3; ++turn) {
      for (CanvasModel* map : {&first_, &second_}) map->tiles().Want(map->Demand(map->view(), 1));
      workbench_.DeliverReplies();
    }
  }

  FakeWorkbench workbench_;
  CanvasModel first_;
  MethodTrial reference_{nullptr, MapView::kSecond};
  CanvasModel second_{&reference_};
};

TEST_F(ComparedMapsTest, MasksOfOneHeadAreComparedPairByPair) {
  first_.CompareWith(&second_);
  EXPECT_EQ(first_.comparison(), Comparison::kMasks);
  Settle();
  // The wider band keeps what the other does and more.
  ASSERT_TRUE(first_.overlap().has_value());
  const analysis::MaskOverlap& overlap = *first_.overlap();
  EXPECT_EQ(overlap.second_alone, 0);
  EXPECT_EQ(overlap.pairs, 512 * 513 / 2);
  int64_t wider = 0, narrower = 0;
  for (int64_t row = 0; row < 512; ++row) {
    for (int64_t column = 0; column <= row; ++column) {
      wider += FakeWorkbench::Kept(row, column, 64, 4) ? 1 : 0;
      narrower += FakeWorkbench::Kept(row, column, 16, 4) ? 1 : 0;
    }
  }
  EXPECT_EQ(overlap.both, narrower);
  EXPECT_EQ(overlap.first_alone, wider - narrower);
  const MapPicture picture = first_.Picture(first_.view(), 1);
  EXPECT_EQ(picture.comparison, Comparison::kMasks);
  ASSERT_FALSE(picture.quads.empty());
  for (const MapQuad& quad : picture.quads) {
    EXPECT_NE(quad.pair.tile, nullptr);
    EXPECT_EQ(quad.mask.tile, nullptr);
  }
  const std::vector<std::string> texts = ComparisonTexts(first_);
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_THAT(texts[1], ::testing::HasSubstr("0.00 % (0 scores)"));
  EXPECT_THAT(texts[2], ::testing::HasSubstr("(" + Grouped(narrower) + " scores)"));
}

TEST_F(ComparedMapsTest, AnotherMaskIsCountedAnewAndTheOldTilesStayMeanwhile) {
  first_.CompareWith(&second_);
  Settle();
  const int64_t before = first_.overlap()->first_alone;
  Keep(&second_, 32);
  first_.MaskChanged();
  for (const MapQuad& quad : first_.Picture(first_.view(), 1).quads) EXPECT_TRUE(quad.pair.from_old_mask);
  Settle();
  EXPECT_LT(first_.overlap()->first_alone, before);
  for (const MapQuad& quad : first_.Picture(first_.view(), 1).quads) EXPECT_FALSE(quad.pair.from_old_mask);
  first_.CompareWith(nullptr);
  EXPECT_FALSE(first_.overlap().has_value());
  Settle();
  for (const MapQuad& quad : first_.Picture(first_.view(), 1).quads) EXPECT_NE(quad.mask.tile, nullptr);
}

TEST_F(ComparedMapsTest, HeadsAreComparedByTheirProbabilities) {
  ASSERT_TRUE(second_.ShowHead({0, 1}));
  first_.CompareWith(&second_);
  EXPECT_EQ(first_.comparison(), Comparison::kValues);
  Settle();
  for (const MapQuad& quad : first_.Picture(first_.view(), 1).quads) {
    ASSERT_NE(quad.other.tile, nullptr);
    EXPECT_EQ(quad.other.tile->key.head, (analysis::HeadId{0, 1}));
    const std::vector<float> encoded = EncodeDifference(quad.values, quad.other, first_.rows());
    for (const int64_t texel : {int64_t{0}, int64_t{200} * 256, int64_t{200} * 256 + 100, int64_t{255} * 256 + 255}) {
      const auto at = static_cast<size_t>(texel);
      const double a = std::exp2(static_cast<double>(quad.values.tile->log2_p[at])),
                   b = std::exp2(static_cast<double>(quad.other.tile->log2_p[at]));
      if (std::isinf(quad.values.tile->log2_p[at])) continue;
      const double size = std::exp2(std::fabs(static_cast<double>(encoded[at])) - 64);
      EXPECT_NEAR(std::copysign(size, static_cast<double>(encoded[at])), b - a, 1e-5 + 1e-4 * std::fabs(b - a));
    }
  }
  EXPECT_EQ(ComparisonTexts(first_).size(), 2U);
}

TEST_F(ComparedMapsTest, MapsOfOtherQueriesSayThatTheyHaveNoDifference) {
  TraceSummary shorter = workbench_.Summary();
  shorter.num_rows = 100;
  shorter.row_positions.assign(shorter.row_positions.begin() + 412, shorter.row_positions.end());
  second_.SetTrace(shorter);
  ASSERT_TRUE(second_.ShowHead({0, 1}));
  first_.CompareWith(&second_);
  EXPECT_EQ(first_.comparison(), Comparison::kNone);
  EXPECT_THAT(first_.WhyNotCompared(), ::testing::HasSubstr("different queries or keys"));
  EXPECT_DOUBLE_EQ(second_.RowLike(first_, 420.25), 8.25) << "the query at token 420 is the ninth recorded";
  EXPECT_DOUBLE_EQ(first_.RowLike(second_, 8), 420);
  second_.SetCursorOf(first_, {420, 3});
  EXPECT_EQ(second_.other_cursor(), (MarkedScore{8, 3}));
}

// Of two lengths, what both have is compared, and each texel of it against the two maps' own tiles of the same level.
TEST_F(ComparedMapsTest, OfMapsOfDifferentLengthsTheCommonPartIsCompared) {
  FakeWorkbench long_bench(4096);
  FakeWorkbench short_bench(700);
  for (const bool longer_first : {true, false}) {
    MethodTrial reference(nullptr, MapView::kSecond);
    CanvasModel here, there{&reference};
    for (const auto& [map, bench] : {std::pair{&here, longer_first ? &long_bench : &short_bench},
                                     std::pair{&there, longer_first ? &short_bench : &long_bench}}) {
      map->SetWorkbench(bench);
      map->SetTrace(bench->Summary());
      map->LayOut({800, 600});
      ASSERT_TRUE(map->ShowHead({0, 1}));
    }
    here.CompareWith(&there);
    EXPECT_EQ(here.comparison(), Comparison::kValues);
    EXPECT_EQ(here.Compared().num_rows, 700);
    EXPECT_EQ(here.Compared().num_columns, 700);
    // At a scale that the shorter one has no tiles of, and at one that it has.
    int64_t compared = 0;
    for (const double scale : {8.0, 1.5}) {
      here.view().CenterOn(0, 0, scale);
      there.view().CenterOn(0, 0, scale);
      EXPECT_DOUBLE_EQ(there.view().scores_per_pixel(), here.view().scores_per_pixel()) << "one scale for both";
      for (int turn = 0; turn < 3; ++turn) {
        for (CanvasModel* map : {&here, &there}) map->tiles().Want(map->Demand(map->view(), 1));
        for (FakeWorkbench* bench : {&long_bench, &short_bench}) bench->DeliverReplies();
      }
      const MapPicture picture = here.Picture(here.view(), 1);
      EXPECT_EQ(picture.compared_end_row, 700);
      for (const MapQuad& quad : picture.quads) {
        ASSERT_NE(quad.values.tile, nullptr);
        if (!quad.other.tile) continue;
        const TileKey &key = quad.values.tile->key, &other_key = quad.other.tile->key;
        EXPECT_EQ(key.level, other_key.level);
        EXPECT_EQ(std::pair(key.x, key.y), std::pair(other_key.x, other_key.y));
        const std::vector<float> encoded =
            EncodeDifference(quad.values, quad.other, here.rows(), picture.compared_end_row);
        for (int64_t y = 0; y < 256; ++y) {
          for (int64_t x = 0; x < 256; ++x) {
            const auto at = static_cast<size_t>(y * 256 + x);
            const int64_t end_row = (int64_t{key.y} * 256 + y + 1) << key.level;
            if (end_row > 700) {
              ASSERT_LE(encoded[at], kBlankLog2) << "row " << end_row - 1 << " is in one map only";
              continue;
            }
            if (std::isinf(quad.values.tile->log2_p[at])) continue;
            const double a = std::exp2(static_cast<double>(quad.values.tile->log2_p[at])),
                         b = std::exp2(static_cast<double>(quad.other.tile->log2_p[at]));
            const double size =
                std::fabs(b - a) < 1e-12 ? 0 : std::exp2(std::fabs(static_cast<double>(encoded[at])) - 64);
            ASSERT_NEAR(std::copysign(size, static_cast<double>(encoded[at])), b - a, 1e-5);
            ++compared;
          }
        }
      }
      EXPECT_GT(compared, 0);
      compared = 0;
    }
    const std::vector<std::string> texts = ComparisonTexts(here);
    ASSERT_EQ(texts.size(), 3U);
    EXPECT_THAT(texts[2], ::testing::HasSubstr("the first 700 queries in common"));
    EXPECT_THAT(CaptionOf(here, here.view()).Legend(),
                ::testing::HasSubstr("Compared: the first 700 queries, which both have."));
    // A cut trace's first token is another one.
    TraceSummary cut = there.trace();
    cut.first_token = 5;
    there.SetTrace(cut);
    ASSERT_TRUE(there.ShowHead({0, 1}));
    here.CompareWith(&there);
    EXPECT_EQ(here.comparison(), Comparison::kNone);
    here.CompareWith(nullptr);
  }
}

TEST_F(ComparedMapsTest, AShorterMapHasNoCursorWhereItHasNoQuery) {
  TraceSummary shorter = workbench_.Summary();
  shorter.num_rows = 100;
  shorter.row_positions.resize(100);
  second_.SetTrace(shorter);
  ASSERT_TRUE(second_.ShowHead({0, 1}));
  second_.SetCursorOf(first_, {99, 5});
  EXPECT_EQ(second_.other_cursor(), (MarkedScore{99, 5}));
  second_.SetCursorOf(first_, {100, 5});
  EXPECT_FALSE(second_.other_cursor()) << "and not the last query's";
}

TEST_F(ComparedMapsTest, AMapOfAHeadThatItsTraceLacksSaysSo) {
  EXPECT_FALSE(second_.ShowHead({7, 3}));
  first_.CompareWith(&second_);
  EXPECT_EQ(first_.comparison(), Comparison::kNone);
  EXPECT_EQ(EmptyMapText(second_, "other.h5"), "other.h5 has no head 7:3: choose another one, which both traces have.");
  EXPECT_TRUE(second_.ShowHead({0, 1}));
  EXPECT_FALSE(second_.missing_head());
  EXPECT_FALSE(second_.ShowHead({7, 3}));
  second_.SetTrace(workbench_.Summary());
  EXPECT_EQ(EmptyMapText(second_, {}), "Choose a head in the matrix or the table.");
}

TEST(DifferenceCodeTest, HoldsSignsAndSizesAtAnyDepth) {
  EXPECT_EQ(EncodeDifferenceLog2(0), 0);
  EXPECT_FLOAT_EQ(EncodeDifferenceLog2(0.25), 62);
  EXPECT_FLOAT_EQ(EncodeDifferenceLog2(-0.25), -62);
  EXPECT_FLOAT_EQ(EncodeDifferenceLog2(std::ldexp(1.0, -20)), 44);
  EXPECT_EQ(EncodeDifferenceLog2(std::ldexp(1.0, -80)), 0) << "less than any score of 128K keys";
}

}  // namespace
}  // namespace headscope::ui
