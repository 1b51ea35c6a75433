// SPDX-License-Identifier: Apache-2.0
// What the charts of shares have in common: their colours and how a line of them is gripped.
#pragma once

#include <QColor>

namespace headscope::ui {

inline constexpr double kGripPixels = 6;  // to either side of a line that is dragged
inline constexpr QColor kBelowColor(214, 126, 44), kAboveColor(86, 140, 200);  // of the target
inline constexpr QColor kTargetColor(192, 72, 120);

}  // namespace headscope::ui
