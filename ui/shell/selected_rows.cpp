// SPDX-License-Identifier: Apache-2.0
#include "selected_rows.h"

#include <QHeaderView>
#include <algorithm>

namespace headscope::ui {

void ListRows(QTableView* view, QAbstractItemModel* model) {
  view->setModel(model);
  view->setSelectionBehavior(QAbstractItemView::SelectRows);
  view->setAlternatingRowColors(true);
  view->setTabKeyNavigation(false);
  view->setShowGrid(false);
  view->setWordWrap(false);
  view->verticalHeader()->hide();
  view->verticalHeader()->setDefaultSectionSize(view->fontMetrics().height() + 6);
  view->horizontalHeader()->setStretchLastSection(true);
}

std::vector<int> SelectedRows(const QTableView* view) {
  std::vector<int> rows;
  for (const QModelIndex& row : view->selectionModel()->selectedRows()) rows.push_back(row.row());
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace headscope::ui
