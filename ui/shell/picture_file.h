// SPDX-License-Identifier: Apache-2.0
// A pane's picture in a file: .svg and .pdf keep lines and letters as such, .png has twice the window's pixels.
#pragma once

#include <QString>
#include <QWidget>

namespace headscope::ui {

// Draws the widget as it is, on a light ground. An existing file is replaced. Returns an empty string, or one sentence.
QString WritePicture(QWidget* widget, const QString& path);

}  // namespace headscope::ui
