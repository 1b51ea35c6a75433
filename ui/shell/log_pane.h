// SPDX-License-Identifier: Apache-2.0
// What the window has said, with its time, to read again and to copy.
#pragma once

#include <QLabel>
#include <QPushButton>
#include <QTableView>
#include <QWidget>

#include "window_state.h"

namespace headscope::ui {

class LogPane : public QWidget {
  Q_OBJECT

 public:
  // `state` outlives the pane.
  explicit LogPane(WindowState* state, QWidget* parent = nullptr);

 private:
  void Copy() const;
  void Update();

  NoticeLog* const log_;
  QTableView* view_;
  QPushButton *copy_, *clear_;
  QLabel* hint_;
};

}  // namespace headscope::ui
