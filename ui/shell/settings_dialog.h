// SPDX-License-Identifier: Apache-2.0
// What a person may set that belongs to no trace: how much memory the caches take. Takes effect at once.
#pragma once

#include <QDialog>
#include <QLabel>
#include <QSpinBox>

#include "ui/memory_budget.h"

namespace headscope::ui {

class SettingsDialog : public QDialog {
  Q_OBJECT

 public:
  // `memory` outlives the dialog.
  explicit SettingsDialog(MemoryBudget* memory, QWidget* parent = nullptr);

 Q_SIGNALS:
  void MemoryChosen(int mebibytes);  // 0: the default

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void Refresh();

  MemoryBudget* const memory_;
  QSpinBox* limit_;
  QLabel* used_;
};

}  // namespace headscope::ui
