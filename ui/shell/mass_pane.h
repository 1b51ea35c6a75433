// SPDX-License-Identifier: Apache-2.0
// The pane of the kept mass: its histogram, the share of queries below the target, the worst query, and the search for
// the cheapest parameters that meet the target.
#pragma once

#include <QCheckBox>
#include <QLabel>
#include <QPushButton>
#include <QWidget>

#include "mass_chart.h"
#include "window_state.h"

namespace headscope::ui {

class MassPane : public QWidget {
  Q_OBJECT

 public:
  // Shows the mask of the method under trial and moves its target; `state` outlives the pane.
  explicit MassPane(WindowState* state, QWidget* parent = nullptr);

 protected:
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  void Refresh();

  WindowState* const state_;
  MassChart* chart_;
  QLabel* below_;
  QPushButton *worst_, *search_;
};

}  // namespace headscope::ui
