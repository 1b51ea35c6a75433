// SPDX-License-Identifier: Apache-2.0
// The layer x head matrix: where its cells lie, what colours they have, and what is painted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/types/matrix_painter.h"

namespace headscope::analysis {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

// Layers 2 and 5; heads 0, 1 (KV 0), 2 (KV 1) and 7 (KV 3); 5:1 was not recorded.
const std::vector<HeadId> kHeads = {{2, 0}, {2, 1}, {2, 2}, {2, 7}, {5, 0}, {5, 2}, {5, 7}};

MatrixLayout SomeLayout() {
  return {kHeads, {0, 0, 1, 3, 0, 1, 3}};
}

TEST(MatrixLayout, EveryPointOfACellBelongsToItsHead) {
  MatrixLayout layout = SomeLayout();
  ASSERT_EQ(layout.num_rows(), 2);
  ASSERT_EQ(layout.num_columns(), 4);
  for (const Box& area : {Box{10, 20, 300, 200}, Box{0, 0, 40, 15}, Box{-5, 3, 4000, 3000}}) {
    layout.Fit(area);
    for (const HeadId& head : kHeads) {
      const auto cell = layout.CellOf(head);
      ASSERT_TRUE(cell);
      const Box box = layout.CellBox(*cell);
      for (const auto& [x, y] : {std::pair{box.centre_x(), box.centre_y()}, std::pair{box.x + 0.5, box.y + 0.5},
                                 std::pair{box.right() - 1, box.bottom() - 1}}) {
        ASSERT_TRUE(layout.CellAt(x, y));
        EXPECT_EQ(layout.HeadOf(*layout.CellAt(x, y)), head);
      }
      EXPECT_GE(box.width, MatrixLayout::kLeast);
      EXPECT_LE(box.width, MatrixLayout::kMostWide);
      EXPECT_LE(box.height, MatrixLayout::kMostHigh);
      EXPECT_TRUE(layout.Bounds().Contains(box.x, box.y));
      EXPECT_TRUE(layout.Bounds().Contains(box.right(), box.bottom()));
    }
  }
  layout.Fit({10, 20, 300, 200});
  EXPECT_LE(layout.Bounds().width, 300);
  EXPECT_FALSE(layout.CellAt(layout.Bounds().x - 1, layout.Bounds().y - 1));
  EXPECT_FALSE(layout.CellAt(layout.Bounds().right() + 1, layout.Bounds().bottom() + 1));
}

TEST(MatrixLayout, GroupsOfAKvHeadStandApart) {
  MatrixLayout layout = SomeLayout();
  layout.Fit({0, 0, 300, 100});
  ASSERT_EQ(layout.groups().size(), 3U);
  EXPECT_EQ(layout.groups()[0].kv_head, 0);
  EXPECT_EQ(layout.groups()[0].last, 1);
  EXPECT_EQ(layout.groups()[2].kv_head, 3);
  const auto gap = [&](int column) { return layout.CellBox({0, column + 1}).x - layout.CellBox({0, column}).right(); };
  EXPECT_DOUBLE_EQ(gap(0), MatrixLayout::kGap);
  EXPECT_DOUBLE_EQ(gap(1), MatrixLayout::kGap + MatrixLayout::kGroupGap);
  // A point in the gap belongs to no cell.
  EXPECT_FALSE(layout.CellAt(layout.CellBox({0, 1}).right() + 2.5, 5));
}

TEST(MatrixLayout, HeadsThatWereNotRecordedHaveNoCell) {
  const MatrixLayout layout = SomeLayout();
  EXPECT_FALSE(layout.CellOf({5, 1}));
  EXPECT_FALSE(layout.CellOf({3, 0}));
  EXPECT_FALSE(layout.HeadOf({1, 1}));
  EXPECT_FALSE(layout.HeadOf({-1, 0}));
  EXPECT_FALSE(layout.HeadOf({0, 4}));
  const MatrixLayout empty;
  EXPECT_FALSE(empty.CellAt(0, 0));
  EXPECT_TRUE(empty.Bounds().width == 0);
}

MetricInfo Metric(double minimum, double maximum, bool diverging) {
  MetricInfo metric;
  metric.minimum = minimum;
  metric.maximum = maximum;
  metric.diverging = diverging;
  return metric;
}

TEST(MetricScale, SpansTheMetricsOwnRangeOrThatOfTheValues) {
  const std::vector<double> values = {3, std::nan(""), -1, std::numeric_limits<double>::infinity()};
  const MetricScale own(Metric(0, 1, false), values);
  EXPECT_EQ(own.least(), 0);
  EXPECT_EQ(own.most(), 1);
  EXPECT_EQ(own.Color(0.25), ColorAt(SequentialPalette(), 0.25));
  EXPECT_EQ(own.Color(7), SequentialPalette().back()) << "clamped";
  EXPECT_EQ(own.Color(std::nan("")), std::nullopt);
  const MetricScale by_values(Metric(0, 0, false), values);
  EXPECT_EQ(by_values.least(), -1);
  EXPECT_EQ(by_values.most(), 3);
  const MetricScale about_zero(Metric(0, 0, true), values);
  EXPECT_EQ(about_zero.least(), -3);
  EXPECT_EQ(about_zero.Color(0), ColorAt(DivergingPalette(), 0.5));
  const MetricScale one_value(Metric(0, 0, false), std::vector<double>{2.5});
  EXPECT_EQ(one_value.Color(2.5), SequentialPalette().front()) << "no division by zero";
  EXPECT_EQ(MetricScale(Metric(0, 0, false), {}).most(), 1) << "nothing is known";
}

TEST(MetricText, HasAsManyDigitsAsSayAnything) {
  EXPECT_EQ(MetricText(0.12345), "0.123");
  EXPECT_EQ(MetricText(-0.0001), "0.000") << "what rounds to zero has no sign";
  EXPECT_EQ(MetricText(12.345), "12.35");
  EXPECT_EQ(MetricText(123.45), "123.5");
  EXPECT_EQ(MetricText(1234.5), "1234");
  EXPECT_EQ(MetricText(std::nan("")), "–");
}

// Notes what is painted.
class Paper : public MatrixSurface {
 public:
  void Fill(const Box& box, Rgb color) override { fills.emplace_back(box, color); }
  void Hatch(const Box& box) override { hatched.push_back(box); }
  void Line(double x0, double y0, double x1, double) override {
    lines.emplace_back(x0, x1);
    highest = std::min(highest, y0);
  }
  void Write(Text kind, double x, double y, Anchor, const std::string& text, std::optional<Rgb> ink) override {
    (kind == Text::kCell ? in_cells : texts).push_back(text);
    if (ink) inks.push_back(*ink);
    rightmost = std::max(rightmost, x);
    highest = std::min(highest, y);
  }
  void WriteUpwards(double x, double, const std::string& text) override {
    texts.push_back(text);
    leftmost = std::min(leftmost, x);
  }
  double Width(Text, const std::string& text) const override { return 6.0 * static_cast<double>(text.size()); }
  double Height(Text) const override { return 12; }
  void BeginCell(HeadId head) override { begun.push_back(head); }
  void EndCell(HeadId head, const Box&) override { EXPECT_EQ(head, begun.back()); }

  std::vector<std::pair<Box, Rgb>> fills;
  std::vector<Box> hatched;
  std::vector<std::pair<double, double>> lines;
  std::vector<std::string> texts, in_cells;
  std::vector<Rgb> inks;
  std::vector<HeadId> begun;
  double rightmost = 0, leftmost = 1e9, highest = 1e9;
};

MatrixPicture SomePicture() {
  MatrixPicture picture;
  picture.layout = SomeLayout();
  picture.scale = MetricScale(Metric(0, 1, false), {});
  picture.title = "Sink mass";
  picture.cell = [scale = *picture.scale](HeadId head) {
    return CellOfMetric(scale, head == HeadId{5, 2} ? std::nan("") : 0.1 * head.layer + 0.05 * head.head);
  };
  return picture;
}

TEST(MatrixPainter, PaintsEveryRecordedHeadOnceInTheColourOfItsValue) {
  MatrixPicture picture = SomePicture();
  picture.layout.Place(60, 40, 40, 20);
  Paper paper;
  PaintMatrix(picture, 400, &paper);
  EXPECT_EQ(paper.begun, kHeads);
  ASSERT_EQ(paper.hatched.size(), 1u);
  EXPECT_EQ(paper.hatched.front().x, picture.layout.CellBox({1, 2}).x) << "5:2 has no value";
  std::vector<std::pair<double, Rgb>> cells;
  for (const auto& [box, color] : paper.fills) {
    if (box.width == 40) cells.emplace_back(box.x, color);
  }
  ASSERT_EQ(cells.size(), kHeads.size() - 1);
  EXPECT_EQ(cells[1].first, picture.layout.CellBox({0, 1}).x);
  EXPECT_EQ(cells[1].second, ColorAt(SequentialPalette(), 0.25));
  EXPECT_THAT(paper.in_cells, ElementsAre("0.20", "0.25", "0.30", "0.55", "0.50", "0.85"));
  for (size_t i = 0; i < paper.inks.size(); ++i) EXPECT_EQ(paper.inks[i], InkOn(cells[i].second));
  EXPECT_NE(paper.inks.front(), paper.inks.back()) << "white on dark, black on light";
  // Layers, heads, KV brackets and the legend's numbers.
  for (const char* text : {"2", "5", "0", "7", "head", "layer", "KV 0", "Sink mass", "0.000", "0.500", "1.000"})
    EXPECT_THAT(paper.texts, Contains(text)) << text;
  ASSERT_EQ(paper.lines.size(), 3u);
  EXPECT_EQ(paper.lines.front().second, picture.layout.CellBox({0, 1}).right()) << "two heads share KV 0";
}

TEST(MatrixPainter, StaysInsideTheRoomThatItAsksFor) {
  MatrixPicture picture = SomePicture();
  Paper paper;
  const MatrixMargins margins = LabelMargins(paper);
  picture.layout.Place(margins.left, margins.top, 40, 20);
  PaintMatrix(picture, 400, &paper);
  EXPECT_GE(paper.leftmost - paper.Height(MatrixSurface::Text::kLabel) / 2, 0);
  EXPECT_GE(paper.highest, 0);
  const double bottom = picture.layout.Bounds().bottom() + LegendHeight(paper, picture);
  for (const auto& [box, color] : paper.fills) EXPECT_LE(box.bottom(), bottom);
}

TEST(MatrixPainter, LeavesOutNumbersThatDoNotFitAndThinsOutLabels) {
  MatrixPicture picture = SomePicture();
  picture.layout.Place(60, 40, 9, 9);
  Paper paper;
  PaintMatrix(picture, 400, &paper);
  EXPECT_TRUE(paper.in_cells.empty());
  EXPECT_THAT(paper.texts, Contains("2"));
  EXPECT_THAT(paper.texts, Not(Contains("5"))) << "its label would touch that of layer 2";
  EXPECT_THAT(paper.texts, Not(Contains("KV 1"))) << "wider than its head";
}

TEST(MatrixPainter, WithoutAScaleTheLegendNamesTheClassesInsideItsRoom) {
  MatrixPicture picture = SomePicture();
  picture.scale.reset();
  picture.cell = [](HeadId) { return MatrixCell{ClassColor(HeadClass::kBlock), {}}; };
  picture.layout.Place(60, 40, 40, 20);
  Paper paper;
  PaintMatrix(picture, 200, &paper);
  for (const HeadClassInfo& one : kHeadClasses) {
    if (one.head_class == HeadClass::kUnknown) {
      EXPECT_THAT(paper.texts, Not(Contains(one.name)));
    } else {
      EXPECT_THAT(paper.texts, Contains(one.name));
    }
  }
  EXPECT_LT(paper.rightmost, 260);
  std::set<double> lines;
  for (const auto& [box, color] : paper.fills) {
    if (box.width == 12) lines.insert(box.y);
  }
  EXPECT_GT(lines.size(), 1u) << "seven names need more than one line of 140 pixels";
}

TEST(MatrixPainter, OfNoHeadsPaintsNothing) {
  MatrixPicture picture = SomePicture();
  picture.layout = {};
  Paper paper;
  PaintMatrix(picture, 400, &paper);
  EXPECT_TRUE(paper.fills.empty() && paper.texts.empty());
}

}  // namespace
}  // namespace headscope::analysis
