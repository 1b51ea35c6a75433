// SPDX-License-Identifier: Apache-2.0
// Where the labels of a chart stand so that none covers another. Pure.
#pragma once

#include <QRectF>
#include <optional>
#include <vector>

namespace headscope::ui {

// Of each label, which come by importance, the first of its places (best first) that lies within `area` and touches
// neither a label before it nor anything of `taken`; nothing where it has no such place, and is better left out.
std::vector<std::optional<QRectF>> PlaceLabels(const QRectF& area, const std::vector<QRectF>& taken,
                                               const std::vector<std::vector<QRectF>>& labels);

// Places of a label of this size beside a dot of this radius: below and above it, to the right and to the left.
std::vector<QRectF> PlacesBeside(QPointF dot, double radius, QSizeF size);
// The same along a line across `area`: below it and above it, at the left end and on towards the right.
std::vector<QRectF> PlacesAlong(double y, const QRectF& area, QSizeF size);

}  // namespace headscope::ui
