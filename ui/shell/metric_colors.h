// SPDX-License-Identifier: Apache-2.0
// Colours of metrics and classes, for the matrix, its legend and the table. Pure.
#pragma once

#include <QColor>

#include "analysis/types/head_statistics.h"

namespace headscope::ui {

// Position 0..1 on the sequential palette of the matrix.
QColor SequentialColor(double position);
// Position 0..1 on a palette that is neutral at 0.5: blue below, red above.
QColor DivergingColor(double position);
// A metric's value between least and most; diverging metrics are centred at 0. NaN gives an invalid colour.
QColor MetricColor(double value, double least, double most, bool diverging);
// Six colours that stay apart for colour-blind eyes.
QColor ClassColor(analysis::HeadClass head_class);
// Black or white, whichever reads better on `ground`.
QColor TextOn(const QColor& ground);

}  // namespace headscope::ui
