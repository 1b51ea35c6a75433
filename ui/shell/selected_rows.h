// SPDX-License-Identifier: Apache-2.0
// What tables of whole rows share.
#pragma once

#include <QMenu>
#include <QTableView>
#include <vector>

namespace headscope::ui {

// A table of `model` whose rows are chosen whole, the last column as wide as there is room. Tab leaves it.
void ListRows(QTableView* view, QAbstractItemModel* model);
// "Sort by", an entry for each column on show: what a click on its title does, by keys. It belongs to the table until
// another menu takes it.
QMenu* SortMenu(QTableView* view);
// What a pane has for a menu, behind a line; menus among it belong to that menu from now on.
void AddFromPane(QMenu* menu, const QList<QAction*>& entries);
// Ascending.
std::vector<int> SelectedRows(const QTableView* view);

}  // namespace headscope::ui
