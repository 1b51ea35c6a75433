// SPDX-License-Identifier: Apache-2.0
// How often a run measures, without a hand on the panel's slider.
#pragma once

#include <QJsonObject>

#include "canvas_widget.h"

namespace headscope::gui_test {

inline void SetRepeats(ui::HeadCanvas* canvas, int repeats) {
  canvas->RestoreViewState({{QStringLiteral("repeats"), repeats}});
}

}  // namespace headscope::gui_test
