// SPDX-License-Identifier: Apache-2.0
// Which head a row of the heads table is, as it is shown.
#pragma once

#include <QTableView>

#include "head_table.h"

namespace headscope::gui_test {

inline analysis::HeadId HeadOfRow(const QTableView* table, int row) {
  const auto number = [&](int column) { return table->model()->index(row, column).data().toInt(); };
  return {number(ui::HeadTableModel::kLayer), number(ui::HeadTableModel::kHead)};
}

}  // namespace headscope::gui_test
