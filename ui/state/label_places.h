// SPDX-License-Identifier: Apache-2.0
// Where the labels of a chart stand so that none covers another. Pure.
#pragma once

#include <QPolygonF>
#include <QRectF>
#include <optional>
#include <vector>

namespace headscope::ui {

// Of each label, which come by importance, the first of its places (best first) that lies within `area` and touches
// neither a label before it nor anything of `taken`, and if there is such a place, none of `lines` either: a name
// across a thin line can be read. Nothing where it has no place, and is better left out.
std::vector<std::optional<QRectF>> PlaceLabels(const QRectF& area, const std::vector<QRectF>& taken,
                                               const std::vector<QRectF>& lines,
                                               const std::vector<std::vector<QRectF>>& labels);

// Places of a label of this size beside one of the dots: to the right, above, below and to the left of it. Not those
// that are as near to another dot, whose name it would seem to be.
std::vector<QRectF> PlacesBeside(size_t dot, const std::vector<QPointF>& dots, double radius, QSizeF size);
// The same along a line across `area`: below it and above it, at the left end and on towards the right.
std::vector<QRectF> PlacesAlong(double y, const QRectF& area, QSizeF size);

// What a line through the points covers, for PlaceLabels.
std::vector<QRectF> CoveredBy(const QPolygonF& line);

}  // namespace headscope::ui
