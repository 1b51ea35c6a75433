// SPDX-License-Identifier: Apache-2.0
// What a person may set that belongs to no trace: how much memory the caches take. Whoever listens sets it, at once.
#pragma once

#include <QDialog>
#include <QLabel>
#include <QSpinBox>
#include <QTimer>

#include "ui/memory_budget.h"

namespace headscope::ui {

class SettingsDialog : public QDialog {
  Q_OBJECT

 public:
  // `memory` outlives the dialog.
  explicit SettingsDialog(const MemoryBudget* memory, QWidget* parent = nullptr);
  void Refresh();  // to what is so now

 Q_SIGNALS:
  void MemoryChosen(int mebibytes);  // 0: the default

 protected:
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  const MemoryBudget* const memory_;
  QSpinBox* limit_;
  QLabel* used_;
  QTimer timer_;
};

}  // namespace headscope::ui
