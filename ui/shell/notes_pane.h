// SPDX-License-Identifier: Apache-2.0
// Bookmarks and tags of the trace: go to one, change its note, delete it.
#pragma once

#include <QLineEdit>
#include <QPushButton>
#include <QTableView>
#include <QWidget>

#include "window_state.h"

namespace headscope::ui {

class NotesPane : public QWidget {
  Q_OBJECT

 public:
  // `state` outlives the pane.
  explicit NotesPane(WindowState* state, QWidget* parent = nullptr);

 private:
  void GoTo(const QModelIndex& index);
  void Delete();
  void Update();

  WindowState* const state_;
  QTableView* view_;
  QLineEdit* tag_;
  QPushButton *bookmark_, *add_tag_, *go_, *rename_, *delete_;
};

}  // namespace headscope::ui
