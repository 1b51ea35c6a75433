// SPDX-License-Identifier: Apache-2.0
#include "table_picture.h"

#include <QHeaderView>

namespace headscope::ui {

TableDrawing DrawingOf(const QTableView& view, const QString& title) {
  TableDrawing drawing;
  drawing.title = title.toStdString();
  const QAbstractItemModel* const model = view.model();
  std::vector<int> columns;
  for (int place = 0; place < view.horizontalHeader()->count(); ++place) {
    const int column = view.horizontalHeader()->logicalIndex(place);
    if (view.isColumnHidden(column)) continue;
    columns.push_back(column);
    // Numbers say in their first row on which side they stand.
    const QVariant side =
        model->rowCount() > 0 ? model->index(0, column).data(Qt::TextAlignmentRole) : QVariant(int{Qt::AlignLeft});
    drawing.columns.push_back({model->headerData(column, Qt::Horizontal).toString().simplified().toStdString(),
                               (side.toInt() & Qt::AlignRight) != 0});
  }
  for (int row = 0; row < model->rowCount(); ++row) {
    std::vector<std::string>& texts = drawing.rows.emplace_back();
    for (const int column : columns) texts.push_back(model->index(row, column).data().toString().toStdString());
  }
  return drawing;
}

}  // namespace headscope::ui
