// SPDX-License-Identifier: Apache-2.0
// The pure parts of the canvas: mapping, palettes, layout, settings, profiles.
#include <gtest/gtest.h>

#include <QJsonArray>
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "canvas_layout.h"
#include "canvas_renderer.h"
#include "canvas_settings.h"
#include "fake_workbench.h"
#include "map_overlay.h"
#include "method_trial.h"
#include "profiles.h"
#include "view_transform.h"

namespace headscope::ui {
namespace {

ViewTransform MakeView(int64_t rows, int64_t columns, PixelRect viewport = {100, 40, 800, 600}) {
  ViewTransform view;
  view.SetMap(rows, columns);
  view.SetViewport(viewport);
  return view;
}

TEST(ViewTransformTest, ARectangleIsMeasuredInQueriesAndKeys) {
  ViewTransform view = MakeView(600, 600, {100, 40, 600, 600});
  view.Fit();
  EXPECT_EQ(DescribeSelection({100, 40, 600, 600}, view), "600 queries x 600 keys");
  EXPECT_EQ(DescribeSelection({110, 140, 20, 1}, view), "1 query x 20 keys");
  EXPECT_EQ(DescribeSelection({110.5, 140, 1, 2}, view), "2 queries x 2 keys") << "cut keys count";
  EXPECT_EQ(DescribeSelection({680, 600, 100, 100}, view), "40 queries x 20 keys") << "and what is no key does not";
}

TEST(ViewTransformTest, FitShowsTheWholeMapBesideItsAxes) {
  const ViewTransform view = MakeView(16384, 16384);
  EXPECT_TRUE(view.ShowsEverything());
  EXPECT_EQ(view.Visible(), (ScoreRect{0, 16384, 0, 16384}));
  EXPECT_DOUBLE_EQ(view.RowToY(0), 40);
  EXPECT_DOUBLE_EQ(view.RowToY(16384), 640);
  EXPECT_DOUBLE_EQ(view.ColumnToX(0), 100);
  EXPECT_DOUBLE_EQ(view.ColumnToX(16384), 700) << "200 pixels to the right of it are free";
}

TEST(ViewTransformTest, ZoomKeepsTheScoreUnderThePointerAtAnyLength) {
  std::mt19937 random(1);
  for (const int64_t tokens : {int64_t{1000}, int64_t{46341}, int64_t{131072}}) {
    ViewTransform view = MakeView(tokens, tokens);
    const double x = 371.3, y = 402.9;
    view.ZoomAbout(x, y, 8);  // away from the edges, which may move the view
    const double row = view.YToRow(y), column = view.XToColumn(x);
    std::uniform_real_distribution<double> factor(0.8, 1.6);
    for (int step = 0; step < 200; ++step) {
      view.ZoomAbout(x, y, factor(random));
      if (view.scores_per_pixel() > static_cast<double>(tokens) / 4800) view.ZoomAbout(x, y, 2);
    }
    EXPECT_NEAR(view.YToRow(y), row, 1e-6) << tokens;
    EXPECT_NEAR(view.XToColumn(x), column, 1e-6) << tokens;
    const double near_end = static_cast<double>(tokens) - 0.5;
    EXPECT_NEAR(view.XToColumn(view.ColumnToX(near_end)), near_end, 1e-6);
  }
}

TEST(ViewTransformTest, ViewStaysOnTheMap) {
  ViewTransform view = MakeView(5000, 5000);
  view.CenterOn(2500, 2500, 0.5);
  view.Pan(1e9, -1e9);
  EXPECT_DOUBLE_EQ(view.Visible().column_begin, 0);
  EXPECT_DOUBLE_EQ(view.Visible().row_end, 5000);
  view.CenterOn(-50, 1e12, 1e-9);
  EXPECT_DOUBLE_EQ(view.pixels_per_score(), ViewTransform::kMaxPixelsPerScore);
  EXPECT_DOUBLE_EQ(view.Visible().column_end, 5000);
  EXPECT_DOUBLE_EQ(view.Visible().row_begin, 0);
  const ViewTransform before = view;
  view.CenterOn(std::nan(""), 0, 1);
  view.ZoomAbout(0, 0, 0);
  view.ZoomAbout(0, 0, std::numeric_limits<double>::infinity());
  view.ZoomTo({10, 10, 20, 30});
  EXPECT_EQ(view, before);
  view.ZoomAbout(0, 0, 1e-12);
  EXPECT_TRUE(view.ShowsEverything());
}

TEST(ViewTransformTest, ResizeKeepsTheCentreAndAFittedViewStaysFitted) {
  ViewTransform view = MakeView(4000, 4000);
  view.SetViewport({0, 0, 300, 1200});
  EXPECT_TRUE(view.ShowsEverything());
  EXPECT_DOUBLE_EQ(view.Visible().column_end, 4000);
  view.CenterOn(1000, 700, 1);
  view.SetViewport({10, 20, 640, 480});
  EXPECT_DOUBLE_EQ(view.center_row(), 1000);
  EXPECT_DOUBLE_EQ(view.center_column(), 700);
  EXPECT_DOUBLE_EQ(view.scores_per_pixel(), 1);
}

TEST(ViewTransformTest, PickingRoundTripsAndRefusesOutside) {
  ViewTransform view = MakeView(3000, 3000);
  view.CenterOn(2000, 1000, 1.0 / 24);
  int64_t row = 0, column = 0;
  ASSERT_TRUE(view.ScoreAt(view.ColumnToX(1003.5), view.RowToY(1996.5), &row, &column));
  EXPECT_EQ(row, 1996);
  EXPECT_EQ(column, 1003);
  EXPECT_FALSE(view.ScoreAt(50, 300, &row, &column)) << "left of the viewport";
  view.Fit();
  EXPECT_TRUE(view.ScoreAt(110, 300, &row, &column));
  EXPECT_FALSE(view.ScoreAt(890, 300, &row, &column)) << "beside a map narrower than the viewport";
}

TEST(ViewTransformTest, TexelIsAtLeastADevicePixelAndUnderTwo) {
  ViewTransform view = MakeView(131072, 131072);
  for (int step = 0; step < 60 && view.scores_per_pixel() > 0.02; ++step) {
    for (const double ratio : {1.0, 2.0}) {
      const int32_t level = view.Level(ratio);
      const double texel_pixels = std::ldexp(1.0, level) / view.scores_per_pixel() * ratio;
      EXPECT_GE(texel_pixels, 1 - 1e-9);
      if (level > 0) {
        EXPECT_LT(texel_pixels, 2 + 1e-9);
      }
    }
    view.ZoomAbout(400, 300, 1.3);
  }
}

TEST(ViewTransformTest, TilesCoverExactlyWhatIsVisible) {
  ViewTransform view = MakeView(131072, 131072, {0, 0, 800, 600});
  view.CenterOn(100000, 60000, 1);
  EXPECT_EQ(view.Level(1), 0);
  EXPECT_EQ(view.TilesOf(0), (TileRange{0, 59600 / 256, (60400 + 255) / 256, 99700 / 256, (100300 + 255) / 256}));
  EXPECT_EQ(view.TilesOf(9), (TileRange{9, 0, 1, 0, 1}));
}

TEST(ViewTransformTest, EmptyMapsAndViewportsAreHarmless) {
  ViewTransform view = MakeView(0, 0);
  EXPECT_TRUE(view.empty());
  view.ZoomAbout(5, 5, 2);
  view.Fit();
  EXPECT_EQ(view.Visible(), ScoreRect{});
  EXPECT_EQ(view.TilesOf(0).x_end, 0);
  EXPECT_TRUE(MakeView(10, 10, {0, 0, 0, 50}).empty());
  EXPECT_EQ(MakeView(-5, 10).num_rows(), 0);
}

TEST(MapNotesTest, PinsLieAtTheirPlacesCornersInsideTheViewAndApart) {
  ViewTransform view;
  view.SetMap(1000, 1000);
  view.SetViewport({50, 20, 500, 500});
  const std::vector<MapNote> notes = {{"whole", {0, 1}, 1, 0, 1000, 0, 1000, ""},
                                      {"part", {0, 1}, 2, 400, 500, 200, 300, ""},
                                      {"other head", {0, 2}, 3, 400, 500, 200, 300, ""},
                                      {"same corner", {0, 1}, 4, 400, 600, 200, 220, ""}};
  const std::vector<NotePin> pins = PinsInView(notes, {0, 1}, view);
  ASSERT_EQ(pins.size(), 3U);
  EXPECT_EQ(pins[0].pin, (PixelRect{50, 20, kPinWidth, kPinHeight}));
  EXPECT_EQ(pins[1].note, 1U);
  EXPECT_NEAR(pins[1].pin.x, view.ColumnToX(200), 1e-9);
  EXPECT_NEAR(pins[1].pin.y, view.RowToY(400), 1e-9);
  EXPECT_NEAR(pins[1].place.right(), view.ColumnToX(300), 1e-9);
  EXPECT_EQ(pins[2].note, 3U);
  EXPECT_GE(pins[2].pin.x, pins[1].pin.right()) << "beside the pin of the same corner";
  EXPECT_EQ(pins[2].pin.y, pins[1].pin.y);
  // Zoomed to a bookmark, its pin is in the corner; away from it there is none.
  view.ZoomTo({400, 500, 200, 300});
  ASSERT_FALSE(PinsInView(notes, {0, 1}, view).empty());
  EXPECT_EQ(PinsInView(notes, {0, 1}, view)[0].note, 1U);
  view.ZoomTo({700, 710, 100, 110});
  EXPECT_TRUE(PinsInView(notes, {0, 1}, view).empty());
  EXPECT_TRUE(PinsInView(notes, {0, 1}, ViewTransform()).empty());
}

TEST(SliderEndTest, IsWhatTheTraceHasOfTheUnit) {
  TraceSummary trace;
  trace.num_tokens = 4100;
  trace.head_dim = 64;
  using kernels::Unit;
  const auto end = [&](Unit unit, double maximum, double minimum = 1) {
    return SliderEnd({.minimum = minimum, .maximum = maximum, .unit = unit, .tokens_per_unit = 64}, trace);
  };
  for (const Unit unit : {Unit::kTokens, Unit::kColumns, Unit::kSlashes, Unit::kRows})
    EXPECT_EQ(end(unit, 1 << 20), 4100) << kernels::UnitText({.unit = unit});
  EXPECT_EQ(end(Unit::kBlocks, 1 << 14), 65) << "the last one is short";
  EXPECT_EQ(end(Unit::kComponents, 1024), 64);
  // Layers may differ.
  trace.heads = {{0, 0}, {3, 1}};
  trace.head_dim_of_head = {192, 32};
  const kernels::ParameterSpec components{.minimum = 1, .maximum = 1024, .unit = Unit::kComponents};
  EXPECT_EQ(SliderEnd(components, trace, analysis::HeadId{0, 0}), 192);
  EXPECT_EQ(SliderEnd(components, trace, analysis::HeadId{3, 1}), 32);
  EXPECT_EQ(SliderEnd(components, trace, analysis::HeadId{5, 0}), 64) << "not recorded: the model's";
  EXPECT_EQ(end(Unit::kTokens, 1024), 1024) << "the parameter's own end is nearer";
  EXPECT_EQ(end(Unit::kTokens, 1 << 20, 5000), 5000) << "a range is never empty";
  for (const Unit unit : {Unit::kNone, Unit::kShareOfMass, Unit::kChunks})
    EXPECT_EQ(end(unit, 64), 64) << kernels::UnitText({.unit = unit});
  trace = {};
  EXPECT_EQ(end(Unit::kTokens, 1 << 20), 1 << 20) << "no trace";
}

TEST(AxisTicksTest, StepsAreRoundAndFarEnoughApart) {
  EXPECT_EQ(AxisTicks(0, 1000, 0.5, 80), (std::vector<int64_t>{0, 200, 400, 600, 800}));
  EXPECT_EQ(AxisTicks(9.5, 14, 30, 20), (std::vector<int64_t>{10, 11, 12, 13}));
  EXPECT_TRUE(AxisTicks(5, 5, 1, 10).empty());
  for (double scale = 0.003; scale < 90; scale *= 1.7) {
    const auto ticks = AxisTicks(1000, 131072, scale, 50);
    for (size_t i = 1; i < ticks.size(); ++i)
      EXPECT_GE(static_cast<double>(ticks[i] - ticks[i - 1]) * scale, 50 * (1 - 1e-6));
  }
}

// What a colour bar writes beside a place is the value at that place: round, inside the range, not too many.
TEST(ValueScaleTest, MarksAreRoundValuesOfTheRange) {
  for (const bool logarithmic : {true, false}) {
    for (const analysis::ValueRange range :
         {analysis::ValueRange{-15, 0}, analysis::ValueRange{-40, -3}, analysis::ValueRange{-3.2f, -0.3f},
          analysis::ValueRange{-14.3f, -13.8f}, analysis::ValueRange{-20, -6.7f}, analysis::ValueRange{-2, 0}}) {
      const double low = std::exp2(static_cast<double>(range.minimum_log2)),
                   high = std::exp2(static_cast<double>(range.maximum_log2));
      for (const int most : {2, 5, 10}) {
        const std::vector<double> values = analysis::RoundValues(range, logarithmic, most);
        EXPECT_GE(values.size(), most > 2 ? 2U : 1U) << low << ' ' << high << ' ' << most;
        EXPECT_LE(values.size(), static_cast<size_t>(std::max(most, 6))) << low << ' ' << high << ' ' << most;
        for (const double value : values) {
          if (value == 0) {  // where the range begins as good as there
            EXPECT_TRUE(!logarithmic && low < 0.01 * high && !std::signbit(value)) << low << ' ' << high;
            continue;
          }
          EXPECT_GE(value, low * (1 - 1e-6));
          EXPECT_LE(value, high * (1 + 1e-6));
          const double digits = value / std::pow(10.0, std::floor(std::log10(value) + 1e-9) - 2);
          EXPECT_NEAR(digits, std::round(digits), 1e-6) << value << " is not written in three digits";
        }
      }
    }
  }
}

TEST(ValueScaleTest, ScaleAndItsInverseAgreeAndClamp) {
  const analysis::ValueRange range{-12, -1};
  for (const bool logarithmic : {true, false}) {
    for (float position = 0; position <= 1; position += 0.125f) {
      EXPECT_NEAR(analysis::ScalePosition(analysis::ScaleValue(position, range, logarithmic), range, logarithmic),
                  position, 1e-4);
    }
    EXPECT_EQ(analysis::ScalePosition(5, range, logarithmic), 1);
    EXPECT_EQ(analysis::ScalePosition(-std::numeric_limits<float>::infinity(), range, logarithmic), 0);
  }
}

TEST(CanvasLayoutTest, PartsDoNotOverlapAndSmallCanvasesAreSafe) {
  const CanvasLayout layout = LayOutCanvas(1000, 800, {.profiles = true});
  EXPECT_GE(layout.map.width, 600);
  EXPECT_LE(layout.map.right(), layout.row_profile.x);
  EXPECT_LE(layout.row_profile.right(), layout.color_bar.x);
  EXPECT_LE(layout.map.bottom(), layout.column_profile.y);
  EXPECT_LE(layout.column_profile.bottom(), 800);
  EXPECT_LE(layout.color_bar.right(), 1000);
  EXPECT_GT(LayOutCanvas(1000, 800, {}).map.width, layout.map.width);
  EXPECT_EQ(LayOutCanvas(10, 10, {.profiles = true}).map.width, 0);
}

// As in a split window, whose halves are higher than wide: below a square map there is room, and beside it there is
// none.
TEST(CanvasLayoutTest, InAHighPlaceTheColourBarLiesBelowTheMap) {
  for (const CanvasParts& parts :
       {CanvasParts{.profiles = true}, CanvasParts{}, CanvasParts{.profiles = true, .steps = true},
        CanvasParts{.panel = PanelPlace::kStrip}}) {
    const CanvasLayout high = LayOutCanvas(470, 600, parts);
    EXPECT_TRUE(high.bar_lies);
    EXPECT_EQ(high.color_bar.x, high.map.x);
    EXPECT_EQ(high.color_bar.width, high.map.width);
    for (const PixelRect& above : {high.map, high.column_profile, high.steps})
      EXPECT_GE(high.color_bar.y, above.bottom());
    EXPECT_LE(high.color_bar.bottom(), 600);
    constexpr double kWords = 60;  // "max 1.00", below the curve of the rows
    if (high.row_profile.width > 0) {
      EXPECT_LE(high.row_profile.x + kWords, 470);
    }
    EXPECT_LE(high.map.width, high.map.height) << "no part of the map's width is lost by it";
    const CanvasLayout wide = LayOutCanvas(800, 600, parts);
    EXPECT_FALSE(wide.bar_lies);
    EXPECT_GE(wide.color_bar.x, wide.map.right());
  }
  CanvasParts picture{.profiles = true, .source_lines = 1, .legend_lines = 4};
  EXPECT_FALSE(LayOutCanvas(470, 900, picture).bar_lies) << "a picture in a file is laid out as the command line's";
}

// As in a split window of 800 x 600, where a map of 12 pixels stood beside its curve and its colour bar.
TEST(CanvasLayoutTest, ASmallMapTakesTheRoomOfItsCurvesAndItsColourBar) {
  const CanvasLayout split = LayOutCanvas(252, 300, {.profiles = true});
  EXPECT_GE(split.map.width, 120);
  EXPECT_EQ(split.row_profile.width, 0);
  EXPECT_TRUE(split.bar_lies);
  EXPECT_GT(split.column_profile.height, 0) << "below it there is room";
  const CanvasLayout wider = LayOutCanvas(320, 180, {.profiles = true});
  EXPECT_GT(wider.color_bar.height, 0) << "the curve goes first";
  EXPECT_EQ(wider.row_profile.width, 0);
  EXPECT_EQ(wider.column_profile.height, 0);
  EXPECT_GT(LayOutCanvas(252, 300, {.profiles = true, .source_lines = 1, .legend_lines = 4}).color_bar.width, 0)
      << "a picture has all";
  EXPECT_GT(LayOutCanvas(252, 300, {.panel = PanelPlace::kStrip}).panel.x, 0) << "the title begins in sight";
}

// As under a row of panes, or on a wide, low screen, where a square map left two thirds of the width empty, and the
// panel was rolled up above it all the same.
TEST(CanvasLayoutTest, InALowWidePlaceThePanelAndTheRowsCurveTakeWhatTheMapLeaves) {
  for (const double width : {760.0, 850.0, 985.0}) {
    SCOPED_TRACE(width);
    EXPECT_TRUE(HasRoomForPanel(width, 300, {.profiles = true}));
    const CanvasLayout low = LayOutCanvas(width, 300, {.profiles = true, .panel = PanelPlace::kBeside});
    const double whole = std::min(low.map.width, low.map.height);
    EXPECT_EQ(whole, LayOutCanvas(width, 300, {.profiles = true}).map.height)
        << "the whole map is as large as it can be";
    EXPECT_LE(low.map.width - whole, width / 8) << "empty";
    EXPECT_EQ(low.row_profile.x, low.map.right() + 6);
    EXPECT_LT(low.row_profile.right(), low.color_bar.x);
    EXPECT_LE(low.color_bar.right(), low.panel.x);
  }
  EXPECT_FALSE(HasRoomForPanel(850, 230, {.profiles = true})) << "of the panel, little could be seen";
  EXPECT_FALSE(HasRoomForPanel(560, 300, {.profiles = true})) << "of the map, little would be left";
  EXPECT_GT(LayOutCanvas(1600, 300, {.profiles = true}).map.width, 900) << "what is zoomed into has the width";
  const CanvasParts picture{.profiles = true, .source_lines = 1, .legend_lines = 4};
  EXPECT_EQ(LayOutCanvas(1600, 500, picture).row_profile.width, 52)
      << "a picture in a file is laid out as the command line's";
}

// As on a screen of 2560 x 1440, where a third of the canvas was blank beside the map, and on one much wider than high.
TEST(CanvasLayoutTest, OnAWideScreenTheRowsCurveTakesTheRoomAndTheMapStandsInTheMiddle) {
  for (const auto& [width, height] :
       {std::pair{1795.0, 1060.0}, {1795.0, 1340.0}, {2560.0, 1400.0}, {3440.0, 1400.0}}) {
    SCOPED_TRACE(width);
    const CanvasLayout wide = LayOutCanvas(width, height, {.profiles = true, .panel = PanelPlace::kBeside});
    const double whole = std::min(wide.map.width, wide.map.height);
    EXPECT_EQ(whole, std::min(wide.map.height, width - 104 - 6 - 58 - 70 - 324)) << "as large as it can be";
    EXPECT_LE(wide.row_profile.width, std::max(160.0, whole / 2));
    const double left = wide.row_axis.x, right = wide.row_profile.x - 6 - (wide.map.x + whole);
    EXPECT_NEAR(left, right, 1) << "blank on either side";
    if (width < 3000) {
      EXPECT_LE(left + right, width / 8);
    }
    EXPECT_EQ(wide.row_axis.right(), wide.map.x);
    EXPECT_EQ(wide.column_profile.x, wide.map.x);
    EXPECT_LE(wide.row_profile.right(), wide.color_bar.x);
  }
}

// As of a trace of the last 512 queries of 32,768 tokens: one scale serves both axes, and every pixel of width counts.
TEST(CanvasLayoutTest, AMapThatIsWiderThanHighKeepsItsWidth) {
  for (const double height : {300.0, 800.0}) {
    SCOPED_TRACE(height);
    const CanvasLayout wide = LayOutCanvas(1400, height, {.profiles = true, .aspect = 64});
    EXPECT_EQ(wide.row_profile.width, 52);
    EXPECT_EQ(wide.map.width, 1400 - 104 - 6 - 58 - 70);
  }
  EXPECT_FALSE(HasRoomForPanel(850, 300, {.profiles = true, .aspect = 64})) << "the panel takes of the map's width";
  EXPECT_TRUE(HasRoomForPanel(1150, 300, {.profiles = true, .aspect = 2})) << "the map's height is what it lacks";
  EXPECT_GT(LayOutCanvas(1400, 300, {.profiles = true, .aspect = 2}).row_profile.width, 52);
}

// The lanes of a decode method's steps take their room from the map, above the profile of the keys.
TEST(CanvasLayoutTest, StepsLieBetweenMapAndProfile) {
  const CanvasLayout layout =
      LayOutCanvas(1000, 800, {.profiles = true, .steps = true, .source_lines = 1, .legend_lines = 4});
  EXPECT_GT(layout.steps.height, 0);
  EXPECT_GT(layout.title.height, 0);
  EXPECT_LE(layout.title.bottom(), layout.column_axis.y);
  EXPECT_LE(layout.column_axis.bottom(), layout.map.y);
  EXPECT_LE(layout.map.bottom(), layout.steps.y);
  EXPECT_LE(layout.steps.bottom(), layout.column_profile.y);
  EXPECT_LE(layout.column_profile.bottom(), layout.caption.y);
  EXPECT_EQ(layout.steps.x, layout.map.x);
  EXPECT_EQ(layout.steps.width, layout.map.width);
  EXPECT_EQ(LayOutCanvas(1000, 800, {.profiles = true}).steps.height, 0);
}

TEST(ProfilesTest, PeakIsTheFirstGreatestBinAndEndsAtTheMap) {
  const float unknown = std::numeric_limits<float>::quiet_NaN();
  const auto peak = PeakOf({unknown, 0.2f, 0.5f, 0.5f, 0.1f}, 10, 2, 1000);
  ASSERT_TRUE(peak);
  EXPECT_EQ(peak->value, 0.5f);
  EXPECT_EQ(peak->begin, 48);
  EXPECT_EQ(peak->end, 52);
  EXPECT_EQ(PeakOf({0.0f, 0.3f}, 0, 3, 13)->end, 13) << "the map's last bin is cut";
  EXPECT_FALSE(PeakOf({unknown, unknown}, 0, 0, 10));
}

TEST(ProfilesTest, BarsLieSideBySideOnPixelsAndNoneCoversAnother) {
  const float unknown = std::numeric_limits<float>::quiet_NaN();
  for (const double scale : {1.0, 1.25, 2.0}) {
    for (const double bin : {0.3, 0.93, 1.0, 1.7, 12.5}) {
      std::vector<float> values(100);
      for (size_t i = 0; i < values.size(); ++i) values[i] = i == 40 ? 1.0f : 0.25f;
      values[70] = unknown;
      const std::vector<ProfileBar> bars =
          BarsOf(values, scale, [&](size_t i) { return 20.4 + bin * static_cast<double>(i); });
      ASSERT_FALSE(bars.empty());
      double most = 0;
      for (size_t i = 0; i < bars.size(); ++i) {
        EXPECT_NEAR(bars[i].begin * scale, std::round(bars[i].begin * scale), 1e-9);
        EXPECT_GE((bars[i].end - bars[i].begin) * scale, 1 - 1e-9);
        if (i > 0) {
          EXPECT_GE(bars[i].begin, bars[i - 1].end) << bin << " at scale " << scale;
        }
        most = std::max(most, static_cast<double>(bars[i].value));
      }
      EXPECT_EQ(most, 1) << "the largest is seen however thin the bars are";
      EXPECT_NEAR(bars.front().begin, 20.4, 1 / scale);
      EXPECT_NEAR(bars.back().end, 20.4 + bin * 100, 1 / scale);
    }
  }
}

TEST(CanvasSettingsTest, RoundTripAndUntrustedValues) {
  CanvasSettings settings;
  settings.color_map = FindMapColors("cividis");
  settings.logarithmic = false;
  settings.reduction = analysis::TileReduction::kMean;
  settings.range = {-9.5f, -0.5f};
  settings.overlay = settings.panel_visible = settings.profiles = settings.minimap = false;
  settings.repeats = 7;
  EXPECT_EQ(SettingsFromJson(SettingsToJson(settings), CanvasSettings{}), settings);
  const QJsonObject hostile{
      {"color_map", "coolwarm"},  {"scale", 5},      {"reduction", QJsonArray{}}, {"range_log2_min", 1e300},
      {"range_log2_max", -1e300}, {"repeats", 1e12}, {"overlay", "yes"}};
  const CanvasSettings read = SettingsFromJson(hostile, settings);
  EXPECT_EQ(read.color_map, settings.color_map);
  EXPECT_EQ(read.repeats, 7);
  EXPECT_FALSE(read.overlay);
  EXPECT_LT(read.range.minimum_log2, read.range.maximum_log2);
  EXPECT_LE(read.range.maximum_log2, kGreatestLog2);

  ViewTransform view = MakeView(1000, 1000);
  view.CenterOn(700, 300, 0.25);
  ViewTransform other = MakeView(1000, 1000);
  ApplyViewJson(ViewToJson(view), &other);
  EXPECT_EQ(other, view);
  ApplyViewJson({{"scores_per_pixel", -1}, {"center_row", 5}}, &other);
  EXPECT_EQ(other, view);
}

// A window that comes back smaller shows the whole map where it showed the whole map.
TEST(SettingsTest, AWholeMapIsWholeInAWindowOfAnotherSize) {
  ViewTransform large = MakeView(4000, 4000), small = large;
  small.SetViewport({0, 0, 100, 150});
  small.CenterOn(3000, 1000, 2);
  ASSERT_FALSE(small.ShowsEverything());
  ApplyViewJson(ViewToJson(large), &small);
  EXPECT_TRUE(small.ShowsEverything());
  EXPECT_DOUBLE_EQ(small.scores_per_pixel(), 40);
  EXPECT_DOUBLE_EQ(small.Visible().row_end, 4000);
}

TEST(EncodeTileTest, ZeroProbabilityIsAColourAndMissingScoresAreBlank) {
  analysis::TileData tile;
  tile.key.level = 1;
  tile.log2_p.assign(256 * 256, -std::numeric_limits<float>::infinity());
  tile.log2_p[10 * 256 + 3] = -5;
  std::vector<int32_t> positions(300);
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i);
  const std::vector<float> encoded = EncodeTile(tile, CausalRows(positions, 300));
  EXPECT_EQ(encoded[10 * 256 + 3], -5);
  EXPECT_EQ(encoded[10 * 256 + 10], kFloorLog2) << "rows 20, 21 and columns 20, 21: on the diagonal";
  EXPECT_EQ(encoded[10 * 256 + 11], kBlankLog2) << "above the diagonal";
  EXPECT_EQ(encoded[200 * 256 + 0], kBlankLog2) << "below the last row";
}

// Profiles against sums over the formula itself.
TEST(ProfilesTest, EqualBruteForceSums) {
  constexpr int64_t kTokens = 700;
  const testing::FakeWorkbench workbench(kTokens);
  const TraceSummary summary = workbench.Summary();
  const CausalRows rows(summary.row_positions, kTokens);
  for (const int32_t level : {0, 1}) {
    const int64_t bin = int64_t{1} << level;
    const ScoreRect visible{200, 500, 100, 420};
    const ViewProfiles profiles = ComputeProfiles(visible, level, rows, [&](int32_t x, int32_t y) {
      return workbench.MakeTile({{0, 0}, analysis::TileReduction::kMean, level, x, y});
    });
    ASSERT_EQ(static_cast<int64_t>(profiles.column_mean.size()), 320 / bin);
    ASSERT_EQ(static_cast<int64_t>(profiles.row_mass.size()), 300 / bin);
    for (const int64_t index : {int64_t{0}, int64_t{37}, 150 / bin, 299 / bin}) {
      double mass = 0;
      for (int64_t row = 200 + index * bin; row < 200 + (index + 1) * bin; ++row) {
        for (int64_t column = 100; column < 420; ++column) mass += workbench.Head(0).Probability(row, column);
      }
      EXPECT_NEAR(profiles.row_mass[static_cast<size_t>(index)], mass / static_cast<double>(bin), 1e-5);
      double sum = 0, scores = 0;
      for (int64_t column = 100 + index * bin; column < 100 + (index + 1) * bin; ++column) {
        for (int64_t row = std::max<int64_t>(200, column); row < 500; ++row) {
          sum += workbench.Head(0).Probability(row, column);
          ++scores;
        }
      }
      EXPECT_NEAR(profiles.column_mean[static_cast<size_t>(index)], sum / scores, 1e-6);
    }
  }
  const ViewProfiles missing =
      ComputeProfiles({0, 300, 0, 300}, 0, rows, [](int32_t, int32_t) { return analysis::TilePtr(); });
  EXPECT_TRUE(std::isnan(missing.row_mass[10]));
}

TEST(CausalRowsTest, TexelCountsEqualBruteForce) {
  const std::vector<int32_t> positions = {3, 4, 9, 10, 40, 41, 42, 60, 63};
  const CausalRows rows(positions, 64);
  EXPECT_EQ(rows.FirstRowAt(10), 3);
  EXPECT_EQ(rows.FirstRowAt(11), 4);
  EXPECT_EQ(rows.FirstRowAt(1000), 8);
  for (const int32_t level : {0, 1, 2, 3, 6}) {
    const int64_t size = int64_t{1} << level;
    for (int64_t y = 0; y * size < 9; ++y) {
      for (int64_t x = 0; x * size < 64; ++x) {
        int64_t scores = 0;
        for (int64_t row = y * size; row < std::min<int64_t>((y + 1) * size, 9); ++row) {
          for (int64_t column = x * size; column < (x + 1) * size; ++column)
            scores += column < 64 && column <= positions[static_cast<size_t>(row)];
        }
        EXPECT_EQ(rows.ScoresInTexel(level, x, y), scores) << level << " " << x << " " << y;
      }
    }
  }
}

// In a split window "max 5.58e-04" ended at "max 5.58", another number.
TEST(KeyProfileTest, WhatFitsOfItsCaptionHasNoPartOfANumber) {
  const std::string whole = "mean p per key, over the visible queries; max 5.58e-04 (keys 0 to 15)",
                    narrow = "mean p per key; max 5.58e-04 (keys 0 to 15)";
  const auto fitting = [&](size_t letters) {
    return KeyProfileThatFits(whole, narrow, [=](const std::string& text) { return text.size() <= letters; });
  };
  EXPECT_EQ(fitting(100), whole);
  EXPECT_EQ(fitting(whole.size() - 1), narrow);
  EXPECT_EQ(fitting(narrow.size() - 1), "mean p per key; max 5.58e-04");
  EXPECT_EQ(fitting(27), "max 5.58e-04");
  EXPECT_EQ(fitting(11), "");
  // Of a profile that is not known yet.
  EXPECT_EQ(KeyProfileThatFits("mean p per key, a", "mean p per key",
                               [](const std::string& text) { return text.size() < 15; }),
            "mean p per key");
}

// What is written into a cell that is too narrow for four digits: never wider than the narrowest cell, and still the
// value, to the digits that are there.
TEST(MapOverlayTest, AShortProbabilityHasFiveCharactersAndStillTheValue) {
  for (double probability = 1; probability > 1e-9; probability *= 0.83) {
    const std::string text = FormatProbabilityShortly(probability);
    EXPECT_LE(text.size(), 5u) << text;
    EXPECT_NEAR(std::stod(text), probability, probability < 0.001 ? 0.5 * probability : 0.0005000001) << text;
  }
  EXPECT_EQ(FormatProbabilityShortly(0.0121), ".012");
  EXPECT_EQ(FormatProbabilityShortly(1.03e-5), "1e-05");
  EXPECT_EQ(FormatProbabilityShortly(0.9999), "1.000");
  EXPECT_EQ(FormatProbabilityShortly(0), "0");
}

}  // namespace
}  // namespace headscope::ui
