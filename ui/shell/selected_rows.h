// SPDX-License-Identifier: Apache-2.0
// What tables of whole rows share.
#pragma once

#include <QTableView>
#include <vector>

namespace headscope::ui {

// A table of `model` whose rows are chosen whole, the last column as wide as there is room. Tab leaves it.
void ListRows(QTableView* view, QAbstractItemModel* model);
// Ascending.
std::vector<int> SelectedRows(const QTableView* view);

}  // namespace headscope::ui
