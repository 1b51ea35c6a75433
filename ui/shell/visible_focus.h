// SPDX-License-Identifier: Apache-2.0
// Where the keyboard is: a frame around what has it, in the palette's highlight. A scroll area's is drawn by the
// application's style, and Qt repaints it as the keyboard comes and goes; so is a widget that paints itself, whose
// frame is PaintFocus.
#pragma once

#include <QPainter>
#include <QStyle>
#include <QWidget>

namespace headscope::ui {

// Qt's own name of the button behind which a tool bar keeps what the window has no room for.
inline constexpr char kMoreToolsName[] = "qt_toolbar_ext_button";

// The frame of a widget that paints itself. Nothing in a picture for a file.
void PaintFocus(QPainter* painter, const QWidget* widget, const QRect& rect);

// While this is there, the widget is painted into a file, where nobody types.
class PaintedForFile {
 public:
  explicit PaintedForFile(QWidget* widget);
  ~PaintedForFile();
  PaintedForFile(const PaintedForFile&) = delete;
  PaintedForFile& operator=(const PaintedForFile&) = delete;

 private:
  QWidget* const widget_;
};

// Fusion, in which tables, lists and texts, too, show that they have the keyboard. The application owns it once set.
QStyle* MakeApplicationStyle();

}  // namespace headscope::ui
