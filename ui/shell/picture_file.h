// SPDX-License-Identifier: Apache-2.0
// A pane's picture in a file: .svg and .pdf keep lines and letters as such, .png has the pixels that are chosen.
#pragma once

#include <QString>
#include <QWidget>

namespace headscope::ui {

// Draws the widget as it is, on a light ground, with room for its letters where it has none in the window. `png_width`:
// pixels across; 0: two for each of the widget's. An existing file is replaced. Returns an empty string, or one
// sentence.
QString WritePicture(QWidget* widget, const QString& path, int png_width);

}  // namespace headscope::ui
