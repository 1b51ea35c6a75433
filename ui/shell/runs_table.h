// SPDX-License-Identifier: Apache-2.0
// The pane of the measured runs: RunsModel as a table.
#pragma once

#include <QTableView>
#include <QWidget>
#include <optional>

#include "runs_model.h"

namespace headscope::ui {

class WindowState;

class RunsTable : public QWidget {
  Q_OBJECT

 public:
  // `state` outlives the pane.
  explicit RunsTable(WindowState* state, QWidget* parent = nullptr);
  // The selected rows, or all, with a header line, tab-separated.
  QString AsText() const;
  // The first selected run that is no baseline; else nothing.
  std::optional<analysis::MethodResult> SelectedRun() const;

 Q_SIGNALS:
  void ContextMenuWanted(QPoint global);

 private:
  RunsModel* const model_;
  QTableView* view_;
};

}  // namespace headscope::ui
