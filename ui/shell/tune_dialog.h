// SPDX-License-Identifier: Apache-2.0
// What all heads are tuned for: one or several methods of a phase, a target, and what gets a setting of its own.
#pragma once

#include <QComboBox>
#include <QDialog>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QLayout>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <vector>

#include "window_state.h"

namespace headscope::ui {

class TuneDialog : public QDialog {
  Q_OBJECT

 public:
  // Both outlive the dialog.
  TuneDialog(WindowState* state, Workbench* workbench, QWidget* parent = nullptr);

  TuneSettings settings() const;

 Q_SIGNALS:
  void CopyWanted(const headscope::ui::TuneSettings& settings);
  void TuneWanted(const headscope::ui::TuneSettings& settings);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void FillMethods();  // of the chosen phase
  void Update();
  bool IsDecode() const;
  const TuneTargetChoice* Target() const;  // null: none is chosen
  // Asks for traces and adds those that neither list has.
  void AddTraces(QListWidget* list, const QString& title);
  QLayout* TraceList(QListWidget* list, const QString& name, const QString& title, const QString& help);
  // Lengths as they are typed; empty: none.
  std::vector<std::string> Ranges() const;

  WindowState* const state_;
  const std::vector<TuneTargetChoice> targets_;
  QComboBox* phase_;
  QListWidget* methods_;
  QComboBox* target_;
  QDoubleSpinBox* value_;
  QComboBox* unit_;
  QComboBox* choose_;    // between methods, under a limit
  QListWidget* traces_;  // beside the open one
  QListWidget* checks_;  // traces that nothing is chosen by
  QLineEdit* ranges_;
  QLineEdit* check_rows_;  // rows that nothing is chosen by
  QLabel* heads_;
  QPushButton *tune_, *copy_;
};

}  // namespace headscope::ui
