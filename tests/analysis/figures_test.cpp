// SPDX-License-Identifier: Apache-2.0
// Drawing and files; the numbers of the figures are compared with NumPy (tests/oracle/figures_oracle.py).
#include "analysis/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <tuple>

#include "analysis/figure_drawing.h"
#include "analysis/report.h"
#include "analysis/table_drawing.h"
#include "base/device.h"
#include "base/errors.h"
#include "figures/axis_ticks.h"
#include "figures/first_of_class.h"
#include "figures/head_rows.h"
#include "figures/pattern_recall.h"
#include "kernels/method.h"
#include "synthetic_heads.h"

extern "C" void cairo_debug_reset_static_data(void);

namespace headscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> Texts(const std::vector<AxisTick>& ticks) {
  std::vector<std::string> texts;
  for (const AxisTick& tick : ticks) texts.push_back(tick.text);
  return texts;
}

TEST(AxisTicks, SayThousandsInFull) {
  EXPECT_THAT(Texts(AxisTicks(9500, 11000, false, 4)), ElementsAre("9500", "10000", "10500", "11000"));
}

TEST(AxisTicks, AreRoundNumbersInsideTheRange) {
  EXPECT_THAT(Texts(AxisTicks(0, 1, false, 5)), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1"));
  EXPECT_THAT(Texts(AxisTicks(-3.2, 4.1, false, 4)), ElementsAre("-2", "0", "2", "4"));
  EXPECT_THAT(Texts(AxisTicks(1000, 20000, true, 8)), ElementsAre("1K", "2K", "4K", "8K", "16K"));
  EXPECT_THAT(Texts(AxisTicks(0.015, 0.3, true, 6)), ElementsAre("0.02", "0.05", "0.1", "0.2"));
  EXPECT_THAT(Texts(AxisTicks(0.00005, 2, true, 8)), ElementsAre("1e-04", "0.001", "0.01", "0.1", "1"));
}

TEST(Figures, HaveNamesOfTheirOwnAndSaySomething) {
  std::set<std::string> names;
  for (const FigureMaker* maker : FigureMakers()) {
    EXPECT_TRUE(names.insert(maker->info().name).second) << maker->info().name;
    EXPECT_FALSE(maker->info().title.empty() || maker->info().help.empty()) << maker->info().name;
    EXPECT_EQ(FindFigure(maker->info().name), maker);
  }
  EXPECT_EQ(FindFigure("no such figure"), nullptr);
  EXPECT_THROW(MakeFigure(*FindFigure("index-transfer"), {.traces = {FigureTrace{}}}), UsageError);
}

Figure EveryKind() {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Figure figure{"every-kind", "Every kind <of> panel", "nobody", "A caption, with words.", {}};
  FigurePanel lines{.title = "lines", .kind = FigureKind::kLines, .x = {"x", true, 0, 0}, .y = {"y", false, 0, 0}};
  lines.series = {{"one", {1, 10, 100}, {0.5, kNone, 2}}, {"two", {1, 10, 100}, {3, 2, 1}}};
  FigurePanel points = lines;
  points.title = "points";
  points.kind = FigureKind::kPoints;
  points.diagonal = true;
  FigurePanel bars{.title = "bars", .kind = FigureKind::kBars, .categories = {"a, b", "c"}};
  bars.series = {{"one", {}, {1, -2}}, {"two", {}, {kNone, 3}}};
  FigurePanel stack = bars;
  stack.title = "stack";
  stack.kind = FigureKind::kStack;
  stack.series[0].y = {1, 2};
  FigurePanel heat = bars;
  heat.title = "heat";
  heat.kind = FigureKind::kHeat;
  heat.value.title = "z";
  figure.panels = {lines, points, bars, stack, heat};
  return figure;
}

TEST(Figures, JsonAndCsvHoldEveryNumber) {
  const nlohmann::json json = nlohmann::json::parse(FigureJson(EveryKind()));
  EXPECT_EQ(json["schema"], "headscope-figure-1");
  ASSERT_EQ(json["panels"].size(), 5u);
  EXPECT_EQ(json["panels"][0]["series"][0]["x"], nlohmann::json({1.0, 10.0, 100.0}));
  EXPECT_TRUE(json["panels"][0]["series"][0]["y"][1].is_null());
  EXPECT_EQ(json["panels"][2]["categories"], nlohmann::json({"a, b", "c"}));
  const std::string csv = FigureCsv(EveryKind());
  EXPECT_THAT(csv, StartsWith("panel,series,x,y\nlines,one,1,0.5\nlines,one,10,\nlines,one,100,2\n"));
  EXPECT_THAT(csv, HasSubstr("bars,one,\"a, b\",1\nbars,one,c,-2\n"));
}

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Maps, AsSvgAndPdfHaveLettersAndASharpImage) {
  const HeadTensorsPtr head = testing::RandomHead({.num_tokens = 300}, 4);
  RenderRequest request;
  request.width = request.height = 240;
  const std::string svg = ::testing::TempDir() + "map.svg", pdf = ::testing::TempDir() + "map.pdf";
  EXPECT_EQ(DrawHeadMap(*head, {}, request, svg), NamedCpu());
  EXPECT_EQ(DrawHeadMap(*head, {}, request, pdf), NamedCpu());
  const std::string text = FileText(svg);
  EXPECT_THAT(text, HasSubstr("<svg"));
  EXPECT_THAT(text, HasSubstr("data:image/png;base64,iVBORw0KGgo"));  // a PNG's first bytes
  EXPECT_THAT(text, HasSubstr(">key token</text>"));
  EXPECT_THAT(text, HasSubstr(">query token</text>"));
  EXPECT_THAT(text, HasSubstr("<title>Attention map of layer 3, head"));
  EXPECT_THAT(text, HasSubstr(">p, log</text>"));
  EXPECT_THAT(text, HasSubstr(">Colour: attention probability p,"));
  EXPECT_THAT(FileText(pdf), StartsWith("%PDF-"));
  EXPECT_THAT(FileText(pdf), HasSubstr("/FontFile"));
  std::stop_source stop;
  stop.request_stop();
  request.stop = stop.get_token();
  const std::string stopped = ::testing::TempDir() + "stopped.svg";
  std::remove(stopped.c_str());
  EXPECT_THROW(DrawHeadMap(*head, {}, request, stopped), CancelledError);
  EXPECT_EQ(FileText(stopped), "") << "nothing is written";
}

TEST(Figures, AreDrawnAsSvgPdfAndPng) {
  const std::string base = ::testing::TempDir() + "figure.";
  for (const auto& [extension, begin] :
       {std::pair<std::string, std::string>{"svg", "<?xml"}, {"pdf", "%PDF"}, {"png", "\x89PNG"}}) {
    DrawFigure(EveryKind(), 900, 500, base + extension);
    const std::string drawn = FileText(base + extension);
    EXPECT_THAT(drawn, StartsWith(begin));
    EXPECT_GT(drawn.size(), 5000u) << extension;
    // Another number is another picture.
    Figure other = EveryKind();
    other.panels[0].series[1].y[1] = 2.5;
    DrawFigure(other, 900, 500, base + extension);
    EXPECT_NE(FileText(base + extension), drawn) << extension;
  }
  EXPECT_THROW(DrawFigure(EveryKind(), 900, 500, "/no/such/folder/figure.svg"), FailedError);
  EXPECT_THROW(DrawFigure(EveryKind(), 90, 50, base + "svg"), UsageError);
}

// A report's map differed from `headscope render`'s of it once the window had written a PDF.
TEST(Figures, AsPngAreTheSameBehindAPdf) {
  const std::string base = ::testing::TempDir() + "behind.";
  std::vector<std::string> drawn;
  for (const bool behind : {false, true}) {
    cairo_debug_reset_static_data();  // as in a new process
    if (behind) DrawFigure(EveryKind(), 900, 500, base + "pdf");
    DrawFigure(EveryKind(), 900, 500, base + "png");
    drawn.push_back(FileText(base + "png"));
  }
  EXPECT_TRUE(drawn[0] == drawn[1]);
}

// cairo's own SVG holds the outlines of letters: nobody can search, copy or restyle them.
TEST(Figures, AsSvgKeepTheirTextAsText) {
  const std::string figure_path = ::testing::TempDir() + "text.svg", table_path = ::testing::TempDir() + "table.svg";
  Figure figure = EveryKind();
  figure.title = "Heads <of> a & b";
  DrawFigure(figure, 900, 500, figure_path);
  const TableText table{"Runs", {{"method", false}, {"kept", true}}, {{"a-shape", "12.5 %"}, {"<b>", "7 %"}}};
  DrawTable(table, table_path);
  const std::string drawn = FileText(figure_path), listed = FileText(table_path);
  EXPECT_THAT(drawn, HasSubstr("<title>Heads &lt;of&gt; a &amp; b</title>"));
  for (const std::string& text : {std::string(">Heads &lt;of&gt; a &amp; b</text>"), figure.panels[0].title + "</text>",
                                  std::string("transform=\"rotate(-90,")})
    EXPECT_THAT(drawn, HasSubstr(text));
  for (const char* text : {">Runs</text>", ">a-shape</text>", ">&lt;b&gt;</text>"})
    EXPECT_THAT(listed, HasSubstr(text));
  // Numbers end where their title ends.
  const auto place_of = [&listed](const std::string& text) {
    const size_t end = listed.find(">" + text + "</text>"), begin = listed.rfind("<text", end);
    const std::string element = listed.substr(begin, end - begin);
    EXPECT_THAT(element, HasSubstr("text-anchor=\"end\"")) << text;
    return element.substr(0, element.find(" y="));
  };
  EXPECT_EQ(place_of("12.5 %"), place_of("kept"));
  EXPECT_EQ(place_of("7 %"), place_of("kept"));
  for (const std::string& document : {drawn, listed}) EXPECT_THAT(document, ::testing::Not(HasSubstr("<symbol")));
}

TEST(Figures, AsPixelsAreThoseOfThePngOnEitherGround) {
  const FigurePixels light = PaintFigure(EveryKind(), 600, 400, 1.5, {}),
                     dark = PaintFigure(EveryKind(), 600, 400, 1.5, {.dark = true});
  EXPECT_EQ(light.width, 900);
  EXPECT_EQ(light.height, 600);
  ASSERT_EQ(light.rgb.size(), 900u * 600u);
  ASSERT_EQ(dark.rgb.size(), light.rgb.size());
  EXPECT_EQ(light.rgb.front(), 0xffffffffu);
  EXPECT_EQ(dark.rgb.front(), 0xff171717u);
  const auto ink = [](const FigurePixels& pixels) {
    return std::count_if(pixels.rgb.begin(), pixels.rgb.end(), [&](uint32_t pixel) { return pixel != pixels.rgb[0]; });
  };
  // The same is drawn, in other inks.
  EXPECT_NEAR(static_cast<double>(ink(dark)), static_cast<double>(ink(light)), 0.05 * static_cast<double>(ink(light)));
  // Without title and caption the panels are larger.
  const FigurePixels bare = PaintFigure(EveryKind(), 600, 400, 1.5, {.captions = false});
  EXPECT_NE(bare.rgb, light.rgb);
  EXPECT_THROW(PaintFigure(EveryKind(), 90, 50, 1, {}), UsageError);
}

Figure OfPanels(size_t count, size_t series) {
  Figure figure{"panels", "Panels", "nobody", "A caption.", {}};
  FigurePanel panel{.title = "lines", .kind = FigureKind::kLines};
  for (size_t i = 0; i < series; ++i)
    panel.series.push_back(
        {"a series with a long name, number " + std::to_string(i), {1, 2}, {0, 1.0 + 0.1 * static_cast<double>(i)}});
  figure.panels.assign(count, panel);
  return figure;
}

TEST(Figures, HaveRoomOnAPageOfTheirHeight) {
  EXPECT_EQ(FigureHeight(OfPanels(2, 2), 1000), 480);
  const Figure many = OfPanels(26, 27);  // eight kinds of heads, all methods in the legends
  const int32_t height = FigureHeight(many, 1000);
  EXPECT_GT(height, FigureHeight(OfPanels(13, 27), 1000));
  EXPECT_GT(height, FigureHeight(OfPanels(26, 2), 1000));
  EXPECT_THROW(PaintFigure(many, 1000, 480, 1, {}), UsageError);
  EXPECT_EQ(PaintFigure(many, 1000, height, 1, {}).height, height);
}

// Pixels of a colour, none of which is mixed with what lies beside it.
int64_t CountPixels(const FigurePixels& pixels, uint32_t rgb) {
  return std::count(pixels.rgb.begin(), pixels.rgb.end(), 0xff000000u | rgb);
}

TEST(Figures, GiveAPartOneColourInAllTraces) {
  constexpr uint32_t kFirst = 0x0072b2, kSecond = 0xd55e00, kThird = 0x009e73;
  Figure figure{"parts", "Parts", "", "", {}};
  FigurePanel panel{.title = "lines", .kind = FigureKind::kLines};
  for (const std::string trace : {"one", "two"}) {
    for (const std::string part : {"a", "b"}) {
      FigureSeries series{trace + ", " + part, {1, 2}, {1.0 + static_cast<double>(panel.series.size()), 3}};
      series.part = part;
      series.trace = trace;
      panel.series.push_back(std::move(series));
    }
  }
  figure.panels = {panel};
  const FigurePixels parts = PaintFigure(figure, 600, 400, 2, {});
  EXPECT_GT(CountPixels(parts, kFirst), 0);
  EXPECT_GT(CountPixels(parts, kSecond), 0);
  EXPECT_EQ(CountPixels(parts, kThird), 0);
  // Traces differ in their dashes.
  Figure other = figure;
  std::swap(other.panels[0].series[0].trace, other.panels[0].series[2].trace);
  EXPECT_NE(PaintFigure(other, 600, 400, 2, {}).rgb, parts.rgb);
  // Series without parts have a colour each.
  for (FigureSeries& series : figure.panels[0].series) series.part = series.trace = "";
  EXPECT_GT(CountPixels(PaintFigure(figure, 600, 400, 2, {}), kThird), 0);
}

TEST(Figures, TellAnyNumberOfTracesApart) {
  // Nine traces of one part and so of one colour, of which one is shown: on a line of one stretch, on a line of many
  // that are shorter than a dash, and as points.
  constexpr size_t kTraces = 9;
  const auto with_only = [](FigureKind kind, size_t points, size_t shown) {
    Figure figure{"traces", "Traces", "", "", {}};
    FigurePanel panel{.title = "lines", .kind = kind};
    for (size_t trace = 0; trace < kTraces; ++trace) {
      FigureSeries series{"trace " + std::to_string(trace) + ", a", {}, {}};
      series.part = "a";
      series.trace = "trace " + std::to_string(trace);
      for (size_t i = 0; i < points; ++i) {
        series.x.push_back(static_cast<double>(i));
        series.y.push_back(trace == shown ? static_cast<double>(i) : std::numeric_limits<double>::quiet_NaN());
      }
      panel.series.push_back(std::move(series));
    }
    figure.panels = {panel};
    return PaintFigure(figure, 900, 700, 1, {}).rgb;
  };
  for (const auto& [kind, points, traces] : {std::tuple{FigureKind::kLines, size_t{2}, kTraces},
                                             {FigureKind::kLines, size_t{600}, kTraces},
                                             {FigureKind::kPoints, size_t{9}, size_t{8}}}) {
    std::set<std::vector<uint32_t>> pictures;
    for (size_t trace = 0; trace < traces; ++trace) pictures.insert(with_only(kind, points, trace));
    EXPECT_EQ(pictures.size(), traces);
  }
}

TEST(Figures, TellAReferenceFromEveryTrace) {
  // Both are drawn in the ink of the page, in the legend.
  for (const size_t num_traces : {0u, 1u, 2u, 3u}) {
    Figure figure{"reference", "Reference", "", "", {}};
    FigurePanel panel{.title = "lines", .kind = FigureKind::kLines};
    for (size_t trace = 0; trace < num_traces; ++trace) {
      FigureSeries series{"a", {1, 2}, {1, 2}};
      series.part = "a";
      series.trace = "trace " + std::to_string(trace);
      panel.series.push_back(std::move(series));
    }
    panel.series.push_back({"reference", {1, 2}, {2, 2}});
    panel.series.back().reference = true;
    panel.series.push_back({"own", {1, 2}, {1, 3}});
    figure.panels = {panel};
    const std::string path = ::testing::TempDir() + "reference.svg";
    DrawFigure(figure, 600, 400, path);
    const std::string text = FileText(path);
    std::set<std::string> dashes;
    const std::regex dashed("stroke-dasharray[:=]\"?([0-9., ]+)");
    for (auto at = std::sregex_iterator(text.begin(), text.end(), dashed); at != std::sregex_iterator(); ++at)
      dashes.insert((*at)[1]);
    EXPECT_EQ(dashes.size(), std::max<size_t>(num_traces, 1)) << "of all traces but the first, and the reference";
  }
}

TEST(Figures, TellMoreSeriesApartThanTheyHaveColours) {
  // The eighth has the first's colour: its line has dashes, its points another shape.
  const auto with_only = [](FigureKind kind, size_t shown) {
    Figure figure = OfPanels(1, 15);
    figure.panels[0].kind = kind;
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    for (size_t i = 0; i < 15; ++i)
      figure.panels[0].series[i].y = i == shown ? std::vector<double>{0, 1} : std::vector<double>{kNone, kNone};
    return PaintFigure(figure, 900, 700, 1, {}).rgb;
  };
  for (const FigureKind kind : {FigureKind::kLines, FigureKind::kPoints}) {
    EXPECT_NE(with_only(kind, 7), with_only(kind, 0));
    EXPECT_NE(with_only(kind, 14), with_only(kind, 0));
    EXPECT_NE(with_only(kind, 14), with_only(kind, 7));
  }
}

TEST(Figures, SayANumberOfEveryTrace) {
  FigureInput input;
  input.traces = {{.name = "one"}};
  EXPECT_EQ(DigitsOfTraces(input, [](size_t) { return 0.5; }), "0.500");
  input.traces.push_back({.name = "two"});
  EXPECT_EQ(DigitsOfTraces(
                input, [](size_t trace) { return 0.25 * static_cast<double>(trace + 1); }, 2),
            "0.25 (one), 0.50 (two)");
  EXPECT_EQ(PartOfTrace(input, 1, "k = 4").name, "two, k = 4");
  std::vector<FigurePanel> panels(2, {.kind = FigureKind::kHeat});
  panels[0].series = {{"0", {}, {1, 3}}};
  panels[1].series = {{"0", {}, {-2, std::numeric_limits<double>::quiet_NaN()}}};
  ShareValueRange(&panels);
  EXPECT_EQ(panels[0].value.minimum, -2);
  EXPECT_EQ(panels[1].value.maximum, 3);
}

// Takes all columns of every row, or refuses every head.
class Everything final : public kernels::PrefillMethod {
 public:
  Everything(std::string title, kernels::Status status) : status_(std::move(status)) { spec_.title = std::move(title); }
  const kernels::MethodSpec& spec() const override { return spec_; }
  kernels::Status Select(const kernels::AttentionProblem& problem, const kernels::ParameterValues&,
                         const kernels::RunOptions& options, kernels::SparseIndex* index) const override {
    if (!status_.ok()) return status_;
    const kernels::PrefillMethod& dense = kernels::PrefillBaseline();
    return dense.Select(problem, kernels::ParameterValues(dense.spec()), options, index);
  }

 private:
  kernels::MethodSpec spec_;
  const kernels::Status status_;
};

TEST(PatternRecall, LeavesOutAMethodThatRefusesTheHead) {
  const HeadTensorsPtr head = testing::RandomHead({.num_tokens = 100}, 1);
  const Everything takes("takes", {}), refuses("refuses", {kernels::StatusCode::kUnsupported, "not this head"}),
      fails("fails", {kernels::StatusCode::kInvalidArgument, "a wrong value"});
  const PatternCurves curves = CurvesOf(head, std::vector<const kernels::PrefillMethod*>{&refuses, &takes}, {});
  ASSERT_EQ(curves.points.size(), 1u);
  ASSERT_EQ(curves.points.at("takes").size(), 1u);
  EXPECT_EQ(curves.points.at("takes")[0].pairs, 1);
  EXPECT_NEAR(curves.points.at("takes")[0].recall, 1, 1e-5);  // a sum of fp32 exponentials
  EXPECT_EQ(curves.refused, (std::map<std::string, std::string>{{"refuses", "not this head"}}));
  EXPECT_THROW(CurvesOf(head, std::vector<const kernels::PrefillMethod*>{&refuses}, {}), UsageError);
  EXPECT_THROW(CurvesOf(head, std::vector<const kernels::PrefillMethod*>{&takes, &fails}, {}), UsageError);
}

// Maps of heads whose mass is near look alike, whoever holds it: the first stands for all, and says so.
TEST(Figures, OneHeadStandsForAllNearClasses) {
  using enum HeadClass;
  const std::vector<StandIn> chosen = ChooseStandIns({kDiffuse, kSink, kDiffuse, kLocal, kBlock, kSinkLocal, kSink});
  ASSERT_EQ(chosen.size(), 3u);
  EXPECT_EQ(chosen[0].head, 0u);
  EXPECT_TRUE(chosen[0].others.empty());
  EXPECT_EQ(chosen[1].head, 1u);
  EXPECT_EQ(chosen[1].others, (std::vector{kSinkLocal, kLocal}));
  EXPECT_EQ(chosen[2].head, 4u);
  const std::vector<StandIn> alone = ChooseStandIns({kLocal, kLocal});
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_TRUE(alone[0].others.empty()) << "no other class occurs";
  EXPECT_EQ(FirstOfClassText(), "the first head of each class (one for sink, sink+local and local)");
}

TEST(Figures, SpacedRowsAndLargestIndices) {
  EXPECT_THAT(SpacedRows(10, 3), ElementsAre(2, 5, 9));
  EXPECT_THAT(SpacedRows(3, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(LargestIndices(std::vector<double>{1, 5, 5, 2}, 2), ElementsAre(1, 2));
  EXPECT_THAT(LargestIndices(std::vector<double>{5, 1, 5, 5}, 2), ElementsAre(0, 2));
  EXPECT_EQ(SharedPart({1, 2, 3, 4}, {2, 4, 6}), 0.5);
}

}  // namespace
}  // namespace headscope::analysis
