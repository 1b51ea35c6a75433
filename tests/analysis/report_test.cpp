// SPDX-License-Identifier: Apache-2.0
#include "analysis/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analysis/result_files.h"
#include "analysis/statistics.h"
#include "analysis/tiles.h"
#include "analysis/types/color_map.h"
#include "analysis/types/color_map_label.h"
#include "analysis/types/round_ticks.h"
#include "base/errors.h"
#include "csv_files.h"
#include "report/axis.h"
#include "report/head_map.h"
#include "report/map_drawing.h"
#include "report/map_values.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RandomHead;
using testing::RandomIndex;

double Luminance(const Rgb& color) {
  const auto linear = [](uint8_t value) {
    const double encoded = value / 255.0;
    return encoded <= 0.04045 ? encoded / 12.92 : std::pow((encoded + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(color.red) + 0.7152 * linear(color.green) + 0.0722 * linear(color.blue);
}

TEST(ColorMaps, SequentialOnesRiseInLuminance) {
  for (const char* name : {"viridis", "magma", "inferno", "cividis", "gray"}) {
    ASSERT_NE(FindColorMap(name), nullptr) << name;
    const Palette& map = FindColorMap(name)->palette;
    // Steps of one entry may be equal in 8 bits; four entries on, the map must be lighter.
    for (size_t i = 0; i + 4 < map.size(); ++i) EXPECT_GT(Luminance(map[i + 4]), Luminance(map[i])) << name << " " << i;
  }
}

TEST(ColorMaps, DivergingOneIsLightestAndNeutralInTheMiddleAndBlueToRed) {
  const Palette& map = DivergingPalette();
  const Rgb middle = map[128];
  EXPECT_LE(std::max({middle.red, middle.green, middle.blue}) - std::min({middle.red, middle.green, middle.blue}), 3);
  for (size_t i = 0; i + 4 < 128; ++i) {
    EXPECT_GT(Luminance(map[i + 4]), Luminance(map[i])) << i;
    EXPECT_GT(Luminance(map[251 - i]), Luminance(map[255 - i])) << i;
  }
  EXPECT_GT(map[0].blue, map[0].red);
  EXPECT_GT(map[255].red, map[255].blue);
}

TEST(ColorMaps, WhatColourBlindReadersCannotOrderIsCalledSo) {
  std::vector<std::string> said;
  for (const ColorMap& map : ColorMaps()) {
    if (ColorMapLabel(map) != map.name) said.push_back(ColorMapLabel(map));
  }
  EXPECT_EQ(said, std::vector<std::string>{"turbo (not colour-blind safe)"});
}

TEST(ColorMaps, AreFoundByTheirNamesAndClampedAtTheirEnds) {
  EXPECT_EQ(FindColorMap("nonesuch"), nullptr);
  for (const ColorMap& map : ColorMaps()) EXPECT_EQ(FindColorMap(map.name), &map);
  EXPECT_EQ(ColorMaps().front().name, "viridis");
  const Palette& map = SequentialPalette();
  EXPECT_EQ(ColorAt(map, -3), map[0]);
  EXPECT_EQ(ColorAt(map, std::nan("")), map[0]);
  EXPECT_EQ(ColorAt(map, 0.5), map[128]);
  EXPECT_EQ(ColorAt(map, 2), map[255]);
}

TEST(Axis, TicksAreRoundAndFew) {
  EXPECT_THAT(RoundTicks(0, 16384, 5, true), ::testing::ElementsAre(0, 5000, 10000, 15000));
  EXPECT_THAT(RoundTicks(3, 7, 10, true), ::testing::ElementsAre(3, 4, 5, 6, 7));
  EXPECT_THAT(RoundTicks(0, 1, 6, false), ::testing::SizeIs(6));
  for (int32_t most = 2; most <= 12; ++most) {
    for (const double end : {1.0, 6.0, 10.0, 16384.0, 131072.0})
      EXPECT_LE(RoundTicks(0, end, most, false).size(), static_cast<size_t>(most)) << end << ", both ends are ticks";
  }
  EXPECT_FALSE(std::signbit(RoundTicks(0, 1, 6, false).front())) << "a bar that begins at -0";
  EXPECT_EQ(GroupThousands(131072), "131,072");
  EXPECT_EQ(GroupThousands(-1000), "-1,000");
  EXPECT_EQ(GroupThousands(999), "999");
}

// A picture as libpng reads it.
struct Pixels {
  int32_t width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
  Rgb At(int32_t x, int32_t y) const {
    const size_t at = 3 * (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x));
    return {rgb[at], rgb[at + 1], rgb[at + 2]};
  }
};
Pixels DrawnAsPng(const HeadTensors& head, const RenderRequest& request) {
  const std::string path = (std::filesystem::path(::testing::TempDir()) / "headscope_report_test.png").string();
  DrawHeadMap(head, {}, request, path);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_file(&image, path.c_str()), 0);
  image.format = PNG_FORMAT_RGB;
  Pixels pixels{static_cast<int32_t>(image.width), static_cast<int32_t>(image.height), {}};
  pixels.rgb.resize(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, pixels.rgb.data(), 0, nullptr), 0);
  std::filesystem::remove(path);
  return pixels;
}

TEST(Render, ThePixelsOfAPngAreThoseOfTheMap) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 700}, 1);
  for (const auto& [width, height] : {std::pair{320, 240}, {333, 501}}) {  // halves of points as well
    RenderRequest request;
    request.width = width;
    request.height = height;
    const HeadMap map = MakeHeadMap(*head, {}, request);
    const Pixels png = DrawnAsPng(*head, request);
    const MapPage page = LayOutMapPage(map, width, height);
    const auto left = static_cast<int32_t>(kMapPixelsPerPoint * page.map.x);
    const auto top = static_cast<int32_t>(kMapPixelsPerPoint * page.map.y);
    ASSERT_GE(png.width, left + width);
    ASSERT_GE(png.height, top + height);
    // The frame's line takes part of the pixels at the edge.
    for (int32_t y = 1; y < height - 1; ++y) {
      for (int32_t x = 1; x < width - 1; ++x)
        ASSERT_EQ(png.At(left + x, top + y), map.PixelAt(x, y, width, height)) << x << ", " << y;
    }
  }
}

// Two grounds, one map: what differs is the paper, the writing on it and where there are no pairs.
TEST(Render, DarkGroundChangesWhatIsNoValueAndNothingElse) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300}, 4);
  RenderRequest request;
  request.width = request.height = 300;
  const Pixels light = DrawnAsPng(*head, request);
  request.dark_ground = true;
  const Pixels dark = DrawnAsPng(*head, request);
  ASSERT_EQ(light.rgb.size(), dark.rgb.size());
  EXPECT_EQ(light.At(0, 0), kLightGround.paper);
  EXPECT_EQ(dark.At(0, 0), kDarkGround.paper);
  int64_t same = 0, no_pairs = 0, paper = 0, ink = 0;
  for (int32_t y = 0; y < light.height; ++y) {
    for (int32_t x = 0; x < light.width; ++x) {
      const Rgb on_light = light.At(x, y), on_dark = dark.At(x, y);
      if (on_light == on_dark) {
        ++same;
      } else if ((on_light == kLightGround.hatch && on_dark == kDarkGround.hatch) ||
                 (on_light == kLightGround.stripe && on_dark == kDarkGround.stripe)) {
        ++no_pairs;
      } else if (on_light == kLightGround.paper && on_dark == kDarkGround.paper) {
        ++paper;
      } else {
        // Letters and lines cover a part of the pixel; the rest is paper, a pixel of the map or no pair.
        EXPECT_LT(on_light.green, 255) << x << ", " << y;
        ++ink;
      }
    }
  }
  EXPECT_GE(same, 298 * 299 / 2) << "every attended pair has its colour in both";
  EXPECT_GE(no_pairs, 298 * 297 / 2);
  EXPECT_GT(paper, 10000);
  EXPECT_GT(ink, 1000) << "title, axes and the bar's numbers";
}

TEST(Render, NamesTheFileThatCannotBeWrittenAndWhy) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 50}, 4);
  for (const char* const path : {"/nonexistent-folder/picture.png", "/nonexistent-folder/picture.pdf"}) {
    try {
      DrawHeadMap(*head, {}, {}, path);
      FAIL() << path;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path));
      EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
    }
  }
}

TEST(Render, RefusesRangesAndMasksThatDoNotFit) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 100}, 2);
  RenderRequest request;
  request.row_begin = 50;
  request.row_end = 101;
  EXPECT_THROW(MakeHeadMap(*head, {}, request), UsageError);
  request = {};
  request.view = ViewKind::kMask;
  EXPECT_THROW(MakeHeadMap(*head, {}, request), UsageError);
  request = {};
  request.color_map = "nonesuch";
  EXPECT_THROW(MakeHeadMap(*head, {}, request), UsageError);
}

TEST(Render, OverlayGreysWhatIsLeftOutAndLostWhatIsKept) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 200}, 5);
  kernels::SparseIndexBuilder::Shape shape;
  shape.seq_q = shape.seq_k = 200;
  shape.tile_rows = 64;
  kernels::SparseIndexBuilder builder(shape);
  for (int32_t row = 0; row < 200; row += 64) {
    builder.AddRange(0, 50);
    builder.FinishList();
  }
  const kernels::SparseIndex index = builder.Build();
  const kernels::SparseIndexView view = index.View();
  RenderRequest request;
  request.width = request.height = 200;
  const HeadMap plain = MakeHeadMap(*head, {}, request);
  request.view = ViewKind::kOverlay;
  const HeadMap overlay = MakeHeadMap(*head, {.index = &view}, request);
  request.view = ViewKind::kLost;
  const HeadMap lost = MakeHeadMap(*head, {.index = &view}, request);
  ASSERT_EQ(plain.texels.size(), overlay.texels.size());
  // Kept keys have their colours in the one and are grey in the other.
  int64_t kept = 0, left_out = 0;
  for (size_t at = 0; at < plain.texels.size(); ++at) {
    const auto same = [&](const HeadMap& a) { return a.texels[at] == plain.texels[at]; };
    const auto grey = [&](const HeadMap& a) {
      return a.texels[at].red == a.texels[at].green && a.texels[at].red == a.texels[at].blue;
    };
    if (same(overlay) && same(lost)) continue;  // no pair, or a colour that is grey
    ASSERT_TRUE(same(overlay) != same(lost));
    ASSERT_TRUE(grey(same(overlay) ? lost : overlay));
    ++(same(overlay) ? kept : left_out);
  }
  const int64_t all_kept = 50 * 51 / 2 + 150 * 50;
  EXPECT_NEAR(static_cast<double>(kept), static_cast<double>(all_kept), 0.02 * static_cast<double>(all_kept));
  EXPECT_NEAR(static_cast<double>(left_out), 200 * 201 / 2.0 - static_cast<double>(all_kept), 300);
}

// A decode method's mask is about its steps: the rows before them keep their colours, and below the map each step has a
// lane of what it keeps.
TEST(Render, StepsGreyTheirOwnRowsAloneAndHaveLanes) {
  constexpr int64_t kTokens = 60, kFirst = 50;
  const HeadTensorsPtr head = RandomHead({.num_tokens = kTokens}, 5);
  KeptSteps steps;
  steps.first_row = kFirst;
  for (int32_t row = kFirst; row < kTokens; ++row)
    steps.steps.push_back({.position = row, .attended = {0, row + 1}, .kept = {{0, 10}, {row - 4, row + 1}}});
  const auto keeps = [](int64_t row, int64_t column) { return row < kFirst || column < 10 || column >= row - 4; };
  const auto is_grey = [](Rgb color) { return color.red == color.green && color.red == color.blue; };
  RenderRequest request;
  request.width = request.height = kTokens;  // a pixel a score
  const HeadMap plain = MakeHeadMap(*head, {}, request);
  EXPECT_FALSE(plain.lanes);
  const std::vector<float> kept_mass(10, 0.25f);
  int greys = 0;
  for (const ViewKind kind : {ViewKind::kOverlay, ViewKind::kLost}) {
    request.view = kind;
    request.profiles = true;
    const HeadMap map = MakeHeadMap(*head, {.steps = &steps, .kept_mass = &kept_mass}, request);
    for (int64_t row = 0; row < kTokens; ++row) {
      for (int64_t column = 0; column <= row; ++column) {
        const auto at = static_cast<size_t>(row * kTokens + column);
        if (is_grey(plain.texels[at])) continue;  // it looks the same either way
        const bool has_color = keeps(row, column) == (kind == ViewKind::kOverlay);
        ASSERT_EQ(map.texels[at] == plain.texels[at], has_color) << row << ", " << column;
        ASSERT_EQ(is_grey(map.texels[at]), !has_color) << row << ", " << column;
        greys += has_color ? 0 : 1;
      }
    }
    ASSERT_TRUE(map.lanes);
    ASSERT_EQ(map.lanes->lanes.size(), 10U);
    EXPECT_THAT(map.lanes->labels, ElementsAre("kept by", "10 queries,", "50", "to 59"));
    const MapLanes::Lane& third = map.lanes->lanes[2];  // of query 52
    EXPECT_DOUBLE_EQ(third.attended.end, 53.0 / kTokens);
    ASSERT_EQ(third.kept.size(), 2U);
    EXPECT_DOUBLE_EQ(third.kept[0].end, 10.0 / kTokens);
    EXPECT_DOUBLE_EQ(third.kept[1].begin, 48.0 / kTokens);
    // The mass that a step keeps stands beside its own row.
    ASSERT_EQ(map.curves->kept.size(), static_cast<size_t>(kTokens));
    EXPECT_TRUE(std::isnan(map.curves->kept[kFirst - 1]));
    EXPECT_EQ(map.curves->kept[kFirst], 0.25);
  }
  EXPECT_GT(greys, 1000);
  // Keys of which the view has some: what lies outside has no lane.
  request.column_begin = 20;
  request.column_end = 60;
  const HeadMap part = MakeHeadMap(*head, {.steps = &steps}, request);
  ASSERT_EQ(part.lanes->lanes[0].kept.size(), 1U);
  EXPECT_DOUBLE_EQ(part.lanes->lanes[0].kept[0].begin, 26.0 / 40);
  request = {};
  for (const ViewKind kind : {ViewKind::kMask, ViewKind::kDifference}) {
    request.view = kind;
    EXPECT_THROW(MakeHeadMap(*head, {.steps = &steps}, request), UsageError);
  }
}

// A prefill method beside a decode method is compared where both choose.
TEST(Render, StepsAreComparedWithAnIndexInTheirOwnRows) {
  constexpr int64_t kTokens = 64, kFirst = 60;
  const HeadTensorsPtr head = RandomHead({.num_tokens = kTokens}, 6);
  kernels::SparseIndexBuilder::Shape shape;
  shape.seq_q = shape.seq_k = kTokens;
  shape.tile_rows = 64;
  kernels::SparseIndexBuilder builder(shape);
  builder.AddRange(0, 32);
  builder.FinishList();
  const kernels::SparseIndex index = builder.Build();
  const kernels::SparseIndexView view = index.View();
  KeptSteps steps;
  steps.first_row = kFirst;
  for (int32_t row = kFirst; row < kTokens; ++row)
    steps.steps.push_back({.position = row, .attended = {0, row + 1}, .kept = {{16, 48}}});
  RenderRequest request;
  request.view = ViewKind::kOverlap;
  request.width = request.height = kTokens;
  const TexelEdges edges = {{0, kFirst, kFirst + 2, kTokens}, {0, 16, 32, 48, 60}};
  const MapValues map = ComputeMapValues(*head, {.index = &view, .other_steps = &steps}, request, edges);
  using Shares = std::array<double, kNumKeptBy>;
  const std::vector<Shares> first_rows(map.kept_by.begin(), map.kept_by.begin() + 4),
      second_step(map.kept_by.begin() + 8, map.kept_by.end());
  EXPECT_THAT(first_rows, Each(Shares{})) << "no steps";
  EXPECT_THAT(second_step, ElementsAre(Shares{1, 0, 0}, Shares{0, 0, 1}, Shares{0, 1, 0}, Shares{}));
  const HeadMap drawn = MakeHeadMap(*head, {.other_index = &view, .steps = &steps}, request);
  EXPECT_TRUE(drawn.lanes);
}

// The curves beside a map against sums of all probabilities.
TEST(Render, CurvesAreTheMassOfEachQueryAndTheMeanOfEachKeyInView) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 90}, 8);
  const std::vector<double> all = testing::AllProbabilities(*head);
  RenderRequest request;
  request.row_begin = 20;
  request.row_end = 80;
  request.column_begin = 10;
  request.column_end = 50;
  request.width = 20;   // two keys a pixel
  request.height = 60;  // a query a pixel
  request.profiles = true;
  request.logarithmic = false;
  request.range = ValueRange{-std::numeric_limits<float>::infinity(), 0};
  std::vector<float> kept_mass(90, 1.0f);
  kept_mass[25] = 0.5f;
  const kernels::SparseIndex index = RandomIndex(*head, 64, {}, 3);
  const kernels::SparseIndexView view = index.View();
  for (const ViewKind kind : {ViewKind::kScores, ViewKind::kOverlay}) {
    for (const TileReduction reduction : {TileReduction::kMax, TileReduction::kMean}) {
      request.view = kind;
      request.reduction = reduction;
      const HeadMap map = MakeHeadMap(*head, {.index = &view, .kept_mass = &kept_mass}, request);
      ASSERT_TRUE(map.curves);
      ASSERT_EQ(map.curves->rows.size(), 60U);
      ASSERT_EQ(map.curves->keys.size(), 20U);
      for (int64_t row = 20; row < 80; ++row) {
        double mass = 0;
        for (int64_t column = 10; column < 50; ++column) mass += all[static_cast<size_t>(row * 90 + column)];
        EXPECT_NEAR(map.curves->rows[static_cast<size_t>(row - 20)], mass, 1e-4) << row;
      }
      for (int64_t key = 10; key < 50; key += 2) {
        double mass = 0;
        int64_t pairs = 0;
        for (int64_t row = 20; row < 80; ++row) {
          for (int64_t column = key; column < key + 2; ++column) {
            mass += all[static_cast<size_t>(row * 90 + column)];
            pairs += column <= row ? 1 : 0;
          }
        }
        EXPECT_NEAR(map.curves->keys[static_cast<size_t>((key - 10) / 2)], mass / static_cast<double>(pairs), 1e-5);
      }
      EXPECT_THAT(map.caption.Legend(), HasSubstr("Below: mean p per key."));
      if (kind == ViewKind::kScores) {
        EXPECT_TRUE(map.curves->kept.empty());
      } else {
        EXPECT_EQ(map.curves->kept[5], 0.5);
        EXPECT_EQ(map.curves->kept[6], 1.0);
      }
    }
  }
  request.view = ViewKind::kMask;
  EXPECT_THROW(MakeHeadMap(*head, {.index = &view}, request), UsageError) << "it shows no probabilities";
}

// Of queries that were not all recorded, where the first one at or after the answer stands.
TEST(Render, AnswersAreMarkedOnBothAxesWithinTheView) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 100, .first_row = 50, .row_step = 2}, 9);
  RenderRequest request;
  request.width = request.height = 50;
  request.column_begin = 20;
  request.column_end = 60;
  const HeadMap map = MakeHeadMap(*head, {.answers = {{0, 5}, {50, 54}, {55, 100}}}, request);
  ASSERT_EQ(map.key_answers.size(), 2U) << "the first lies before the view";
  EXPECT_DOUBLE_EQ(map.key_answers[0].begin, 0.75);
  EXPECT_DOUBLE_EQ(map.key_answers[0].end, 0.85);
  EXPECT_DOUBLE_EQ(map.key_answers[1].end, 1);
  ASSERT_EQ(map.row_answers.size(), 2U) << "none of the first one's queries was recorded";
  EXPECT_DOUBLE_EQ(map.row_answers[0].begin, 0);
  EXPECT_DOUBLE_EQ(map.row_answers[0].end, 2 / 25.0);
  EXPECT_THAT(map.caption.Legend(), HasSubstr("Orange on the axes: the task's answer."));
}

TEST(Render, AHeadLessItselfIsNothingAndHeadsOfOtherQueriesAreRefused) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 100}, 6), longer = RandomHead({.num_tokens = 120}, 6);
  RenderRequest request;
  request.width = request.height = 100;
  request.view = ViewKind::kOther;
  const HeadMap map = MakeHeadMap(*head, {.other = head.get()}, request);
  const Rgb nothing = ColorAt(DivergingPalette(), 0.5);
  for (int64_t row = 0; row < 100; ++row) {
    for (int64_t column = 0; column <= row; ++column) ASSERT_EQ(map.PixelAt(column, row, 100, 100), nothing);
  }
  HeadTensors later = *longer;
  later.first_token = 20;
  EXPECT_THROW(MakeHeadMap(*head, {.other = &later}, request), UsageError) << "its first token is another one";
  EXPECT_THROW(MakeHeadMap(*head, {}, request), UsageError);
}

// Each pixel against the two probabilities, computed one by one.
TEST(Render, OfHeadsOfDifferentLengthsTheCommonPartIsDrawnAndTheCaptionSaysSo) {
  const HeadTensorsPtr shorter = RandomHead({.num_tokens = 70}, 6), longer = RandomHead({.num_tokens = 120}, 7);
  RenderRequest request;
  request.width = request.height = 70;
  request.view = ViewKind::kOther;
  request.logarithmic = false;
  request.range = ValueRange{-std::numeric_limits<float>::infinity(), 0};
  for (const bool longer_first : {true, false}) {
    const HeadTensors &here = longer_first ? *longer : *shorter, &there = longer_first ? *shorter : *longer;
    const HeadMap map = MakeHeadMap(here, {.other = &there}, request);
    EXPECT_EQ(map.row_positions.size(), 70U);
    EXPECT_EQ(map.column_end, 70);
    EXPECT_THAT(map.caption.Legend(), HasSubstr("Compared: the first 70 queries, which both have."));
    for (int64_t row = 0; row < 70; ++row) {
      for (int64_t column = 0; column <= row; ++column) {
        const double difference = Probability(there, row, column) - Probability(here, row, column);
        const Rgb expected = ColorAt(DivergingPalette(), 0.5 + difference / 2),
                  drawn = map.PixelAt(column, row, 70, 70);
        ASSERT_NEAR(drawn.red, expected.red, 4) << row << ", " << column;
        ASSERT_NEAR(drawn.blue, expected.blue, 4) << row << ", " << column;
      }
    }
  }
  // What reaches beyond it ends with it; what lies behind it is nothing to draw.
  request.row_begin = 40;
  request.row_end = 120;
  const HeadMap part = MakeHeadMap(*longer, {.other = shorter.get()}, request);
  EXPECT_EQ(part.row_positions.size(), 30U);
  EXPECT_EQ(part.row_positions.back(), 69);
  request.row_begin = 80;
  EXPECT_THROW(MakeHeadMap(*longer, {.other = shorter.get()}, request), UsageError);
}

TEST(Render, TheRangeOfTheColoursIsTheOneAskedFor) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 64}, 6);
  RenderRequest request;
  request.width = request.height = 64;
  request.range = ValueRange{-10, -2};
  const HeadMap map = MakeHeadMap(*head, {}, request);
  const Palette& palette = FindColorMap("inferno")->palette;
  for (int64_t row = 0; row < 64; ++row) {
    for (int64_t column = 0; column <= row; ++column) {
      const double place = std::clamp((std::log2(Probability(*head, row, column)) + 10) / 8, 0.0, 1.0);
      const Rgb expected = ColorAt(palette, place), drawn = map.PixelAt(column, row, 64, 64);
      ASSERT_NEAR(drawn.red, expected.red, 4) << row << ", " << column;
    }
  }
}

TEST(Render, TellsHowFarItIsAndStops) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 500}, 5);
  const kernels::SparseIndex index = RandomIndex(*head, 64, {}, 4);
  const kernels::SparseIndexView view = index.View();
  for (const ViewKind kind : {ViewKind::kScores, ViewKind::kDifference}) {
    RenderRequest request;
    request.view = kind;
    const HeadMap whole = MakeHeadMap(*head, {.index = &view}, request);
    std::vector<double> shares;
    request.progress = [&](double share) { shares.push_back(share); };
    EXPECT_EQ(MakeHeadMap(*head, {.index = &view}, request).texels, whole.texels) << "watching changes nothing";
    ASSERT_GE(shares.size(), 10U);
    EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
    EXPECT_EQ(shares.back(), 1.0);
    int calls = 0;
    std::stop_source stop;
    request.stop = stop.get_token();
    request.progress = [&](double) {
      if (++calls == 3) stop.request_stop();
    };
    EXPECT_THROW(MakeHeadMap(*head, {.index = &view}, request), CancelledError);
    EXPECT_EQ(calls, 3);
  }
}

TEST(Render, DifferenceIsWhatRenormalisingChanges) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 150}, 3);
  const kernels::SparseIndex index = RandomIndex(*head, 64, {}, 4);
  const kernels::SparseIndexView view = index.View();
  const std::vector<double> p = testing::AllProbabilities(*head);
  TexelEdges edges{EvenEdges(0, 1, 150), EvenEdges(0, 1, 150)};
  RenderRequest request;
  request.view = ViewKind::kDifference;
  request.reduction = TileReduction::kMean;
  const MapValues map = ComputeMapValues(*head, {.index = &view}, request, edges);
  for (int32_t row = 0; row < 150; ++row) {
    std::vector<kernels::ColumnRange> ranges;
    kernels::AppendKeptRanges(view, 0, 0, row, &ranges);
    std::vector<bool> kept(150, false);
    double mass = 0;
    for (const auto& range : ranges) {
      for (int32_t column = range.begin; column < range.end; ++column) {
        kept[static_cast<size_t>(column)] = true;
        mass += p[static_cast<size_t>(row * 150 + column)];
      }
    }
    for (int32_t column = 0; column < 150; ++column) {
      const double value = map.values[static_cast<size_t>(row * 150 + column)];
      if (column > row) {
        EXPECT_TRUE(std::isnan(value));
        continue;
      }
      const double dense = p[static_cast<size_t>(row * 150 + column)];
      EXPECT_NEAR(value, kept[static_cast<size_t>(column)] ? dense / mass - dense : -dense, 1e-5);
    }
  }
}

std::vector<HeadStatistics> SomeStatistics() {
  std::vector<HeadStatistics> all;
  for (int32_t layer = 0; layer < 2; ++layer) {
    for (int32_t head = 0; head < 3; ++head) {
      all.push_back(ComputeStatistics(*RandomHead({.num_tokens = 150}, static_cast<uint32_t>(layer * 3 + head)), {}));
      all.back().id = {layer, head};
    }
  }
  all.front().class_reason = "a <b> & \"c\", d";
  return all;
}

MethodResult SomeResult(const char* method, kernels::Phase phase) {
  MethodResult result;
  result.method = method;
  result.parameters = "a=1,b=0.5";
  result.phase = phase;
  result.device = NamedCpu();
  result.kept_fraction = 0.125;
  result.select = {.median_ms = 1, .mad_ms = 0.25, .repeats = 3};
  result.attend = {.median_ms = 3, .mad_ms = 0.5, .repeats = 3};
  result.dense_attend = {.median_ms = 16, .mad_ms = 1, .repeats = 3};
  result.speedup = 4;
  return result;
}

TEST(Files, StatisticsJsonIsVersionedAndComplete) {
  const auto json = nlohmann::json::parse(StatisticsJson(SomeStatistics()));
  EXPECT_EQ(json["schema"], "headscope-statistics-1");
  ASSERT_EQ(json["heads"].size(), 6u);
  EXPECT_EQ(json["heads"][4]["layer"], 1);
  EXPECT_EQ(json["heads"][4]["head"], 1);
  EXPECT_EQ(json["heads"][0]["top_k_mass"].size(), 11u);
  EXPECT_EQ(json["heads"][0]["top_k_mass"][5]["k"], 32);
  EXPECT_GT(json["heads"][0]["entropy_nats"].get<double>(), 0);
}

TEST(Files, CsvRowsHaveAsManyFieldsAsTheHeader) {
  const auto fields = [](const std::string& line) {
    int64_t count = 1;
    bool quoted = false;
    for (const char character : line) {
      if (character == '"') quoted = !quoted;
      if (character == ',' && !quoted) ++count;
    }
    return count;
  };
  for (const std::string& csv :
       {StatisticsCsv(SomeStatistics()),
        ComparisonCsv({SomeResult("dense", kernels::Phase::kPrefill), SomeResult("sparq", kernels::Phase::kDecode)})}) {
    std::istringstream lines(csv);
    std::string header, line;
    std::getline(lines, header);
    int64_t rows = 0;
    while (std::getline(lines, line)) {
      EXPECT_EQ(fields(line), fields(header)) << line;
      ++rows;
    }
    EXPECT_GT(rows, 0);
  }
}

TEST(Files, ReportHoldsMatrixPicturesAndMethodsAndEscapesText) {
  ReportInput input;
  input.title = "Heads of <model>";
  input.trace_path = "trace.h5";
  input.environment = "2 cores";
  input.written = "2026-05-31 by headscope 1.2.3";
  input.statistics = SomeStatistics();
  input.pictures.push_back({{1, 2}, "caption & more", "head_1_2.png"});
  input.results = {SomeResult("dense", kernels::Phase::kPrefill), SomeResult("a-shape", kernels::Phase::kPrefill),
                   SomeResult("sparq", kernels::Phase::kDecode)};
  const std::string html = ReportHtml(input);
  EXPECT_THAT(html, HasSubstr("Heads of &lt;model&gt;"));
  EXPECT_THAT(html, ::testing::Not(HasSubstr("<model>")));
  EXPECT_THAT(html, HasSubstr("a &lt;b&gt; &amp; &quot;c&quot;"));
  EXPECT_THAT(html, HasSubstr("src=\"head_1_2.png\""));
  EXPECT_THAT(html, HasSubstr("caption &amp; more"));
  for (const char* name :
       {"a-shape", "sparq", "12.50 %", "4.00×", "prefers-color-scheme: dark", "Written: 2026-05-31 by headscope 1.2.3"})
    EXPECT_THAT(html, HasSubstr(name));
  // One titled cell per head in each of the seven matrices.
  size_t cells = 0;
  for (size_t at = html.find("<title>layer "); at != std::string::npos; at = html.find("<title>layer ", at + 1))
    ++cells;
  EXPECT_EQ(cells, 6u * 7u);
}

// It said "0.0000" and "0.0000 ± 0.0000", as if that had been measured, and gave one time a spread of nothing.
TEST(Files, AReportSaysNoTimeThatWasNotTaken) {
  ReportInput input;
  input.results = {SomeResult("dense", kernels::Phase::kPrefill), SomeResult("a-shape", kernels::Phase::kPrefill)};
  input.results[0].is_baseline = true;
  input.results[0].select = {};
  input.results[1].select.repeats = 1;
  input.results[1].select.mad_ms = 0;
  const std::string html = ReportHtml(input);
  size_t dashes = 0;
  for (size_t at = html.find("<td>–</td>"); at != std::string::npos; at = html.find("<td>–</td>", at + 1)) ++dashes;
  EXPECT_EQ(dashes, 2u) << "in the summary and among all runs";
  EXPECT_THAT(html, HasSubstr("<td>1.00</td><td>3.00 ± 0.50</td>"));
  EXPECT_THAT(html, ::testing::Not(HasSubstr("± 0.0000")));
}

}  // namespace
}  // namespace headscope::analysis
