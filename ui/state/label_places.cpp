// SPDX-License-Identifier: Apache-2.0
#include "label_places.h"

#include <algorithm>

namespace headscope::ui {

std::vector<std::optional<QRectF>> PlaceLabels(const QRectF& area, const std::vector<QRectF>& taken,
                                               const std::vector<std::vector<QRectF>>& labels) {
  std::vector<QRectF> occupied = taken;
  std::vector<std::optional<QRectF>> places;
  for (const std::vector<QRectF>& wishes : labels) {
    const auto is_free = [&](const QRectF& place) {
      return area.contains(place) && std::none_of(occupied.begin(), occupied.end(),
                                                  [&](const QRectF& other) { return other.intersects(place); });
    };
    const auto found = std::find_if(wishes.begin(), wishes.end(), is_free);
    places.push_back(found == wishes.end() ? std::nullopt : std::optional(*found));
    if (places.back()) occupied.push_back(*places.back());
  }
  return places;
}

std::vector<QRectF> PlacesBeside(QPointF dot, double radius, QSizeF size) {
  constexpr double kGap = 3;
  const double away = radius + kGap;
  const double right = dot.x() + away, left = dot.x() - away - size.width();
  const double below = dot.y() + kGap, above = dot.y() - kGap - size.height();
  const double middle = dot.x() - size.width() / 2;
  std::vector<QRectF> places;
  for (const QPointF corner : {QPointF(right, below), QPointF(right, above), QPointF(left, below), QPointF(left, above),
                               QPointF(middle, dot.y() + away), QPointF(middle, dot.y() - away - size.height())})
    places.emplace_back(corner, size);
  return places;
}

std::vector<QRectF> PlacesAlong(double y, const QRectF& area, QSizeF size) {
  constexpr double kGap = 1, kSteps = 8;
  std::vector<QRectF> places;
  const double room = std::max(0.0, area.width() - size.width());
  for (double step = 0; step <= kSteps; ++step) {
    const double x = area.left() + room * step / kSteps;
    places.emplace_back(QPointF(x, y + kGap), size);
    places.emplace_back(QPointF(x, y - kGap - size.height()), size);
  }
  return places;
}

}  // namespace headscope::ui
