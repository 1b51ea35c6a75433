// SPDX-License-Identifier: Apache-2.0
// Few bits beside few pairs: the error of the head's output with Q, K and V in each format, beside that of the method
// under trial as it was measured last.
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QTableWidget>
#include <QWidget>

#include "window_state.h"

namespace headscope::ui {

class QuantisePane : public QWidget {
  Q_OBJECT

 public:
  // `state` outlives the pane.
  explicit QuantisePane(WindowState* state, QWidget* parent = nullptr);
  TableDrawing Drawing() const;  // of all that it lists

 private:
  void Apply();    // the controls' settings
  void Refresh();  // what is known
  QString Sentence() const;

  WindowState* const state_;
  QComboBox *format_, *scale_, *hadamard_;
  QLabel* says_;
  QTableWidget* table_;
};

}  // namespace headscope::ui
