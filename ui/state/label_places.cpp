// SPDX-License-Identifier: Apache-2.0
#include "label_places.h"

#include <algorithm>
#include <cmath>

namespace headscope::ui {
namespace {

double DistanceOf(const QRectF& place, QPointF at) {
  const double x = std::max({place.left() - at.x(), 0.0, at.x() - place.right()});
  const double y = std::max({place.top() - at.y(), 0.0, at.y() - place.bottom()});
  return std::hypot(x, y);
}

}  // namespace

std::vector<std::optional<QRectF>> PlaceLabels(const QRectF& area, const std::vector<QRectF>& taken,
                                               const std::vector<QRectF>& lines,
                                               const std::vector<std::vector<QRectF>>& labels) {
  const auto touches = [](const std::vector<QRectF>& others, const QRectF& place) {
    return std::any_of(others.begin(), others.end(), [&](const QRectF& other) { return other.intersects(place); });
  };
  std::vector<QRectF> occupied = taken;
  std::vector<std::optional<QRectF>> places;
  for (const std::vector<QRectF>& wishes : labels) {
    const auto is_free = [&](const QRectF& place) { return area.contains(place) && !touches(occupied, place); };
    auto found = std::find_if(wishes.begin(), wishes.end(),
                              [&](const QRectF& place) { return is_free(place) && !touches(lines, place); });
    if (found == wishes.end()) found = std::find_if(wishes.begin(), wishes.end(), is_free);
    places.push_back(found == wishes.end() ? std::nullopt : std::optional(*found));
    if (places.back()) occupied.push_back(*places.back());
  }
  return places;
}

std::vector<QRectF> PlacesBeside(size_t dot, const std::vector<QPointF>& dots, double radius, QSizeF size) {
  constexpr double kGap = 3;
  const QPointF at = dots[dot];
  const double away = radius + kGap;
  const double right = at.x() + away, left = at.x() - away - size.width(), middle = at.x() - size.width() / 2;
  const double below = at.y() + kGap, above = at.y() - kGap - size.height(), beside = at.y() - size.height() / 2;
  std::vector<QRectF> places;
  for (const QPointF corner : {QPointF(right, below), QPointF(right, above), QPointF(right, beside),
                               QPointF(middle, at.y() + away), QPointF(middle, at.y() - away - size.height()),
                               QPointF(left, above), QPointF(left, below), QPointF(left, beside)}) {
    const QRectF place(corner, size);
    const double own = DistanceOf(place, at);
    bool is_nearest = true;
    for (size_t other = 0; other < dots.size(); ++other)
      is_nearest &= other == dot || DistanceOf(place, dots[other]) > own + radius;
    if (is_nearest) places.push_back(place);
  }
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

std::vector<QRectF> CoveredBy(const QPolygonF& line) {
  constexpr double kStep = 3;  // pixels; a label is higher
  std::vector<QRectF> covered;
  for (qsizetype i = 1; i < line.size(); ++i) {
    const QPointF stretch = line[i] - line[i - 1];
    const double steps = std::max(1.0, std::ceil(std::hypot(stretch.x(), stretch.y()) / kStep));
    for (double step = 0; step <= steps; ++step) {
      const QPointF at = line[i - 1] + stretch * (step / steps);
      covered.emplace_back(at.x() - 1, at.y() - 1, 2, 2);
    }
  }
  return covered;
}

}  // namespace headscope::ui
