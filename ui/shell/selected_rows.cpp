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

QMenu* SortMenu(QTableView* view) {
  auto* menu = new QMenu(QObject::tr("Sort by"), view);
  menu->setObjectName(QStringLiteral("sortMenu"));
  const QHeaderView* const header = view->horizontalHeader();
  for (int place = 0; place < header->count(); ++place) {
    const int column = header->logicalIndex(place);
    if (view->isColumnHidden(column)) continue;
    QAction* const entry =
        menu->addAction(view->model()->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString().simplified());
    entry->setCheckable(true);
    entry->setChecked(header->sortIndicatorSection() == column);
    QObject::connect(entry, &QAction::triggered, view, [view, header, column] {
      const QVariant first = view->model()->headerData(column, Qt::Horizontal, Qt::InitialSortOrderRole);
      Qt::SortOrder order = first.isValid() ? static_cast<Qt::SortOrder>(first.toInt()) : Qt::AscendingOrder;
      if (header->sortIndicatorSection() == column)
        order = header->sortIndicatorOrder() == Qt::AscendingOrder ? Qt::DescendingOrder : Qt::AscendingOrder;
      view->sortByColumn(column, order);
    });
  }
  return menu;
}

void AddFromPane(QMenu* menu, const QList<QAction*>& entries) {
  if (!entries.isEmpty()) menu->addSeparator();
  for (QAction* entry : entries) {
    if (auto* const opens = entry->menu<QMenu*>()) opens->setParent(menu, opens->windowFlags());
    menu->addAction(entry);
  }
}

std::vector<int> SelectedRows(const QTableView* view) {
  std::vector<int> rows;
  for (const QModelIndex& row : view->selectionModel()->selectedRows()) rows.push_back(row.row());
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace headscope::ui
