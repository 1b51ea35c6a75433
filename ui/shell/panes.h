// SPDX-License-Identifier: Apache-2.0
// The panes around the map. They talk to the window's state only; the window knows no more of them than this table.
#pragma once

#include <QDockWidget>
#include <QList>
#include <QMainWindow>

#include "window_state.h"

namespace headscope::ui {

// What makes each pane.
#define HEADSCOPE_PANE(make, name, title, place, pixels) QWidget* make(WindowState* state);
#include "pane_list.h"
#undef HEADSCOPE_PANE

using PaneMaker = QWidget* (*)(WindowState* state);

struct PaneSpec {
  // kLeft and kBottom begin a column and a row, kBelow and kBeside go on with the pane before. The others are tabs
  // behind the pane in that place.
  enum Place { kLeft, kBelow, kBottom, kBeside, kBehindLeft, kBehindBelow, kBehindBottom, kBehindBeside };

  PaneMaker make;
  const char* name;
  const char* title;
  Place place;
  int pixels;  // at first: height in a column, width in a row
};

// The object name of the action that shows a pane. Whoever leads to a pane names its function, so that a pane that is
// gone does not compile, and one that has another name is found.
QString GoToPaneName(PaneMaker make);
QString GoToDockName(const QDockWidget& dock);

// The docks of all panes, in the table's order, children of the window.
QList<QDockWidget*> MakePanes(QMainWindow* window, WindowState* state);
// Puts them where they are at first, and shows them.
void PlacePanes(QMainWindow* window, const QList<QDockWidget*>& docks);
// Gives them their first sizes: once the window has its own.
void SizePanes(QMainWindow* window, const QList<QDockWidget*>& docks);

}  // namespace headscope::ui
