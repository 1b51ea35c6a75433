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
#include "analysis/types/round_ticks.h"
#include "base/errors.h"
#include "report/axis.h"
#include "report/head_map.h"
#include "report/map_values.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

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

TEST(Render, PngReadsBackWithTheSamePixels) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 700}, 1);
  RenderRequest request;
  request.width = 320;
  request.height = 240;
  const ImageRgb image = RenderHead(*head, {}, request);
  EXPECT_GT(image.width, request.width);
  EXPECT_GT(image.height, request.height);
  const std::string path = (std::filesystem::path(::testing::TempDir()) / "headscope_report_test.png").string();
  WritePng(image, path);
  png_image read{};
  read.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_file(&read, path.c_str()), 0);
  read.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(read));
  ASSERT_NE(png_image_finish_read(&read, nullptr, pixels.data(), 0, nullptr), 0);
  EXPECT_EQ(static_cast<int32_t>(read.width), image.width);
  EXPECT_EQ(pixels, image.rgb);
  std::filesystem::remove(path);
}

// Two grounds, one map: what differs is the paper, the writing on it and where there are no pairs.
TEST(Render, DarkGroundChangesWhatIsNoValueAndNothingElse) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 300}, 4);
  RenderRequest request;
  request.width = request.height = 300;
  const ImageRgb light = RenderHead(*head, {}, request);
  request.dark_ground = true;
  const ImageRgb dark = RenderHead(*head, {}, request);
  ASSERT_EQ(light.rgb.size(), dark.rgb.size());
  const auto pixel = [](const ImageRgb& image, size_t place) {
    return std::array<int, 3>{image.rgb[3 * place], image.rgb[3 * place + 1], image.rgb[3 * place + 2]};
  };
  EXPECT_EQ(pixel(light, 0), (std::array{255, 255, 255}));
  EXPECT_LT(pixel(dark, 0)[0], 40);
  int64_t same = 0, paper = 0, ink = 0;
  for (size_t place = 0; place < light.rgb.size() / 3; ++place) {
    const int on_light = pixel(light, place)[1], on_dark = pixel(dark, place)[1];
    if (pixel(light, place) == pixel(dark, place)) {
      ++same;
    } else if (on_light > 220 && on_dark < 60) {
      ++paper;
    } else {
      EXPECT_LT(on_light, 60) << "writing is dark on white";
      EXPECT_GT(on_dark, 200) << "and light on dark";
      ++ink;
    }
  }
  EXPECT_GE(same, 300 * 301 / 2) << "every attended pair has its colour in both";
  EXPECT_GE(paper, 300 * 299 / 2) << "no pair, and the paper";
  EXPECT_GT(ink, 1000) << "title, axes and the bar's numbers";
}

TEST(Render, NamesTheFileThatCannotBeWritten) {
  ImageRgb image{1, 1, {1, 2, 3}};
  try {
    WritePng(image, "/nonexistent-folder/picture.png");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent-folder/picture.png"));
  }
}

TEST(Render, RefusesRangesAndMasksThatDoNotFit) {
  const HeadTensorsPtr head = RandomHead({.num_tokens = 100}, 2);
  RenderRequest request;
  request.row_begin = 50;
  request.row_end = 101;
  EXPECT_THROW(RenderHead(*head, {}, request), UsageError);
  request = {};
  request.view = ViewKind::kMask;
  EXPECT_THROW(RenderHead(*head, {}, request), UsageError);
  request = {};
  request.color_map = "nonesuch";
  EXPECT_THROW(RenderHead(*head, {}, request), UsageError);
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
  const ImageRgb plain = RenderHead(*head, {}, request);
  request.view = ViewKind::kOverlay;
  const ImageRgb overlay = RenderHead(*head, {.index = &view}, request);
  request.view = ViewKind::kLost;
  const ImageRgb lost = RenderHead(*head, {.index = &view}, request);
  ASSERT_EQ(plain.rgb.size(), overlay.rgb.size());
  // Of the map's pixels: those of kept keys have their colours in the one and are grey in the other.
  int64_t kept = 0, left_out = 0;
  for (size_t at = 0; at < plain.rgb.size(); at += 3) {
    const auto same = [&](const ImageRgb& a) {
      return std::equal(a.rgb.begin() + at, a.rgb.begin() + at + 3, plain.rgb.begin() + at);
    };
    const auto grey = [&](const ImageRgb& a) { return a.rgb[at] == a.rgb[at + 1] && a.rgb[at] == a.rgb[at + 2]; };
    if (same(overlay) && same(lost)) continue;  // title, axes, or a colour that is grey
    ASSERT_TRUE(same(overlay) != same(lost));
    ASSERT_TRUE(grey(same(overlay) ? lost : overlay));
    ++(same(overlay) ? kept : left_out);
  }
  const int64_t all_kept = 50 * 51 / 2 + 150 * 50;
  EXPECT_NEAR(static_cast<double>(kept), static_cast<double>(all_kept), 0.02 * static_cast<double>(all_kept));
  EXPECT_NEAR(static_cast<double>(left_out), 200 * 201 / 2.0 - static_cast<double>(all_kept), 300);
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
  EXPECT_THROW(MakeHeadMap(*head, {.other = longer.get()}, request), UsageError);
  EXPECT_THROW(MakeHeadMap(*head, {}, request), UsageError);
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
    const ImageRgb whole = RenderHead(*head, {.index = &view}, request);
    std::vector<double> shares;
    request.progress = [&](double share) { shares.push_back(share); };
    EXPECT_EQ(RenderHead(*head, {.index = &view}, request).rgb, whole.rgb) << "watching changes nothing";
    ASSERT_GE(shares.size(), 10U);
    EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
    EXPECT_EQ(shares.back(), 1.0);
    int calls = 0;
    std::stop_source stop;
    request.stop = stop.get_token();
    request.progress = [&](double) {
      if (++calls == 3) stop.request_stop();
    };
    const ImageRgb stopped = RenderHead(*head, {.index = &view}, request);
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(stopped.width, 0);
    EXPECT_TRUE(stopped.rgb.empty());
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
  result.select.median_ms = 1;
  result.attend.median_ms = 3;
  result.dense_attend.median_ms = 16;
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
  for (const char* name : {"a-shape", "sparq", "12.50 %", "4.00×", "prefers-color-scheme: dark"})
    EXPECT_THAT(html, HasSubstr(name));
  // One titled cell per head in each of the seven matrices.
  size_t cells = 0;
  for (size_t at = html.find("<title>layer "); at != std::string::npos; at = html.find("<title>layer ", at + 1))
    ++cells;
  EXPECT_EQ(cells, 6u * 7u);
}

}  // namespace
}  // namespace headscope::analysis
