// SPDX-License-Identifier: Apache-2.0
// The colour of a sentence about what went wrong, in panes and dialogs (the panel on the map has its own inks).
#pragma once

#include <QColor>
#include <QPalette>

namespace headscope::ui {

// On a light window and on a dark one it can be read as any text can.
inline QColor ErrorInk(const QPalette& palette) {
  return palette.color(QPalette::Base).lightness() < 128 ? QColor(255, 140, 120) : QColor(176, 24, 16);
}

}  // namespace headscope::ui
