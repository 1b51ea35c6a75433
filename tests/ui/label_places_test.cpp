// SPDX-License-Identifier: Apache-2.0
#include "label_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace headscope::ui {
namespace {

constexpr QRectF kArea(0, 0, 200, 100);
const QSizeF kSize(60, 15);

TEST(LabelPlaces, ALabelTakesItsBestFreePlaceAndNoneOfAnothers) {
  const std::vector<QRectF> wishes = {QRectF(10, 10, 60, 15), QRectF(10, 40, 60, 15)};
  const auto places = PlaceLabels(kArea, {}, {}, {wishes, wishes, wishes});
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[0], wishes[0]);
  EXPECT_EQ(places[1], wishes[1]) << "the first is taken";
  EXPECT_FALSE(places[2]) << "left to the tooltip";
}

TEST(LabelPlaces, NothingLeavesTheAreaOrCoversADot) {
  EXPECT_FALSE(PlaceLabels(kArea, {}, {}, {{QRectF(150, 10, 60, 15)}})[0]) << "cut off at the right";
  EXPECT_FALSE(PlaceLabels(kArea, {QRectF(30, 12, 9, 9)}, {}, {{QRectF(10, 10, 60, 15)}})[0]);
  // A dot at the edge has its name on the side that has room.
  const auto place = PlaceLabels(kArea, {}, {}, {PlacesBeside(0, {{195, 50}}, 4, kSize)})[0];
  ASSERT_TRUE(place);
  EXPECT_LT(place->right(), 195);
}

// The target's label lay over the name of a run wherever the chart was low.
TEST(LabelPlaces, ALineAndManyDotsNeverCoverEachOthersLabels) {
  std::mt19937 random(7);
  int placed = 0;
  for (int chart = 0; chart < 200; ++chart) {
    const QRectF area(40, 10, 120 + static_cast<double>(random() % 300), 20 + static_cast<double>(random() % 120));
    std::vector<QPointF> points;
    std::vector<QRectF> dots;
    for (int i = 0; i < 5; ++i) {
      points.emplace_back(area.left() + static_cast<double>(random() % 100) / 100 * area.width(),
                          area.top() + static_cast<double>(random() % 100) / 100 * area.height());
      dots.emplace_back(points.back() - QPointF(4, 4), QSizeF(8, 8));
    }
    std::vector<std::vector<QRectF>> wishes = {
        PlacesAlong(area.top() + static_cast<double>(random() % 100) / 100 * area.height(), area, kSize)};
    for (size_t i = 0; i < points.size(); ++i) wishes.push_back(PlacesBeside(i, points, 4, kSize));
    const auto places = PlaceLabels(area, dots, {}, wishes);
    for (size_t i = 0; i < places.size(); ++i) {
      if (!places[i]) continue;
      ++placed;
      EXPECT_TRUE(area.contains(*places[i]));
      for (const QRectF& dot : dots) EXPECT_FALSE(dot.intersects(*places[i]));
      for (size_t j = 0; j < i; ++j) EXPECT_FALSE(places[j] && places[j]->intersects(*places[i]));
    }
  }
  EXPECT_GT(placed, 400) << "most charts have room for some";
}

// A name between two dots was read as the other one's.
TEST(LabelPlaces, ANameIsNearerToItsOwnDotThanToAnyOther) {
  const std::vector<QPointF> dots = {{100, 50}, {30, 60}, {120, 48}};
  const std::vector<QRectF> places = PlacesBeside(0, dots, 4, kSize);
  EXPECT_FALSE(places.empty());
  for (const QRectF& place : places) {
    const auto away = [&](QPointF at) {
      return std::hypot(std::max({place.left() - at.x(), 0.0, at.x() - place.right()}),
                        std::max({place.top() - at.y(), 0.0, at.y() - place.bottom()}));
    };
    EXPECT_LT(away(dots[0]), away(dots[1]));
    EXPECT_LT(away(dots[0]), away(dots[2]));
  }
}

TEST(LabelPlaces, ALineIsCoveredFromEndToEnd) {
  const std::vector<QRectF> covered = CoveredBy(QPolygonF({{0, 0}, {50, 30}, {90, 30}}));
  for (const QPointF at : {QPointF(0, 0), QPointF(25, 15), QPointF(50, 30), QPointF(77, 30), QPointF(90, 30)}) {
    const QRectF label(at - QPointF(5, 7), QSizeF(10, 14));
    EXPECT_FALSE(PlaceLabels(QRectF(-20, -20, 200, 100), covered, {}, {{label}})[0]) << at.x();
    // Such a place is taken when there is no better one.
    const QRectF better(100, 50, 10, 14);
    EXPECT_EQ(PlaceLabels(QRectF(-20, -20, 200, 100), {}, covered, {{label, better}})[0], better) << at.x();
    EXPECT_EQ(PlaceLabels(QRectF(-20, -20, 200, 100), {}, covered, {{label}})[0], label) << at.x();
  }
  EXPECT_TRUE(CoveredBy({}).empty());
}

}  // namespace
}  // namespace headscope::ui
