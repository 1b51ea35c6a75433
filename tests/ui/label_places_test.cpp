// SPDX-License-Identifier: Apache-2.0
#include "label_places.h"

#include <gtest/gtest.h>

#include <random>

namespace headscope::ui {
namespace {

constexpr QRectF kArea(0, 0, 200, 100);
const QSizeF kSize(60, 15);

TEST(LabelPlaces, ALabelTakesItsBestFreePlaceAndNoneOfAnothers) {
  const std::vector<QRectF> wishes = {QRectF(10, 10, 60, 15), QRectF(10, 40, 60, 15)};
  const auto places = PlaceLabels(kArea, {}, {wishes, wishes, wishes});
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[0], wishes[0]);
  EXPECT_EQ(places[1], wishes[1]) << "the first is taken";
  EXPECT_FALSE(places[2]) << "left to the tooltip";
}

TEST(LabelPlaces, NothingLeavesTheAreaOrCoversADot) {
  EXPECT_FALSE(PlaceLabels(kArea, {}, {{QRectF(150, 10, 60, 15)}})[0]) << "cut off at the right";
  EXPECT_FALSE(PlaceLabels(kArea, {QRectF(30, 12, 9, 9)}, {{QRectF(10, 10, 60, 15)}})[0]);
  // A dot at the edge has its name on the side that has room.
  const auto place = PlaceLabels(kArea, {}, {PlacesBeside({195, 50}, 4, kSize)})[0];
  ASSERT_TRUE(place);
  EXPECT_LT(place->right(), 195);
}

// The target's label lay over the name of a run wherever the chart was low.
TEST(LabelPlaces, ALineAndManyDotsNeverCoverEachOthersLabels) {
  std::mt19937 random(7);
  int placed = 0;
  for (int chart = 0; chart < 200; ++chart) {
    const QRectF area(40, 10, 120 + static_cast<double>(random() % 300), 20 + static_cast<double>(random() % 120));
    std::vector<QRectF> dots;
    std::vector<std::vector<QRectF>> wishes = {
        PlacesAlong(area.top() + static_cast<double>(random() % 100) / 100 * area.height(), area, kSize)};
    for (int i = 0; i < 8; ++i) {
      const QPointF dot(area.left() + static_cast<double>(random() % 100) / 100 * area.width(),
                        area.top() + static_cast<double>(random() % 100) / 100 * area.height());
      dots.emplace_back(dot - QPointF(4, 4), QSizeF(8, 8));
      wishes.push_back(PlacesBeside(dot, 4, kSize));
    }
    const auto places = PlaceLabels(area, dots, wishes);
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

}  // namespace
}  // namespace headscope::ui
