// SPDX-License-Identifier: Apache-2.0
// The pane of the measured runs: RunsModel as a table.
#pragma once

#include <QJsonObject>
#include <QTableView>
#include <QWidget>

#include "runs_model.h"

namespace headscope::ui {

class WindowState;

class RunsTable : public QWidget {
  Q_OBJECT

 public:
  // `state` outlives the pane.
  explicit RunsTable(WindowState* state, QWidget* parent = nullptr);
  const QTableView* view() const { return view_; }
  // By which column the runs are sorted, for the session and undo.
  QJsonObject ViewState() const;
  void RestoreViewState(const QJsonObject& state);

 private:
  RunsModel* const model_;
  QTableView* view_;
};

}  // namespace headscope::ui
