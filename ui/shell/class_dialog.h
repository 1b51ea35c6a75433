// SPDX-License-Identifier: Apache-2.0
// The thresholds of the classes and the alarms of metrics, to read and to change. What is set here takes effect at once
// and can be undone; below stands how many heads each class has by it.
#pragma once

#include <QDialog>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QPushButton>
#include <QTimer>
#include <vector>

#include "window_state.h"

namespace headscope::ui {

class ClassDialog : public QDialog {
  Q_OBJECT

 public:
  // `state` outlives the dialog.
  explicit ClassDialog(WindowState* state, QWidget* parent = nullptr);

 Q_SIGNALS:
  void CopyWanted();  // of the command that classes the heads likewise

 private:
  void Refresh();
  void CountClasses();
  void Load();
  void Save();

  WindowState* const state_;
  std::vector<QDoubleSpinBox*> thresholds_, alarms_;
  QLabel *counts_, *error_;
  QPushButton* reset_;
  QTimer count_timer_;  // heads come one by one
};

}  // namespace headscope::ui
