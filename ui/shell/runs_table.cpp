// SPDX-License-Identifier: Apache-2.0
#include "runs_table.h"

#include <QFont>
#include <QHeaderView>
#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>

#include "panes.h"
#include "window_state.h"
#include "wrapped_header.h"

namespace headscope::ui {

RunsTable::RunsTable(WindowState* state, QWidget* parent) : QWidget(parent), model_(&state->runs) {
  view_ = new QTableView(this);
  view_->setObjectName(QStringLiteral("runsTable"));
  auto* header = new WrappedHeader(view_);
  view_->setHorizontalHeader(header);
  view_->setModel(model_);
  header->setSortIndicator(RunsModel::kSpeedup, Qt::DescendingOrder);
  view_->setSortingEnabled(true);
  view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  view_->setAlternatingRowColors(true);
  view_->setTabKeyNavigation(false);
  view_->setShowGrid(false);
  view_->setWordWrap(false);
  view_->verticalHeader()->hide();
  view_->verticalHeader()->setDefaultSectionSize(view_->fontMetrics().height() + 6);
  header->setStretchLastSection(true);
  QFont bold = view_->font();
  bold.setBold(true);  // the baseline's rows
  const QFontMetrics metrics(bold);
  const int padding = metrics.horizontalAdvance(QStringLiteral("M"));
  for (int column = 0; column < RunsModel::kNumColumns; ++column) {
    view_->setColumnWidth(
        column,
        std::max(
            header->TitleWidth(column),
            metrics.horizontalAdvance(QString::fromUtf8(RunColumns()[static_cast<size_t>(column)].widest)) + padding));
  }
  connect(view_, &QTableView::activated, this, [this, state](const QModelIndex& index) {
    state->ShowRun(model_->runs()[static_cast<size_t>(index.row())]);
  });
  view_->setContextMenuPolicy(Qt::CustomContextMenu);
  connect(view_, &QTableView::customContextMenuRequested, this,
          [this](QPoint at) { Q_EMIT ContextMenuWanted(view_->viewport()->mapToGlobal(at)); });
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 6, 6, 6);
  layout->addWidget(view_);
  auto* hint =
      new QLabel(tr("No runs yet. Ctrl+R measures the panel's method on this head, Ctrl+Shift+R every method, "
                    "Ctrl+Shift+T every prefill method at the target mass."));
  hint->setObjectName(QStringLiteral("runsHint"));
  hint->setAlignment(Qt::AlignCenter);
  hint->setWordWrap(true);
  hint->setForegroundRole(QPalette::PlaceholderText);
  auto* over_rows = new QVBoxLayout(view_->viewport());
  over_rows->addWidget(hint);
  connect(model_, &QAbstractItemModel::modelReset, hint, [this, hint] { hint->setVisible(model_->rowCount() == 0); });
}

QString RunsTable::AsText() const {
  QStringList lines, fields;
  for (int column = 0; column < RunsModel::kNumColumns; ++column) {
    fields.append(model_->headerData(column, Qt::Horizontal, Qt::DisplayRole).toString());
  }
  lines.append(fields.join(u'\t'));
  const bool some = view_->selectionModel()->hasSelection();
  for (int row = 0; row < model_->rowCount(); ++row) {
    if (some && !view_->selectionModel()->isRowSelected(row, {})) continue;
    fields.clear();
    for (int column = 0; column < RunsModel::kNumColumns; ++column) {
      fields.append(model_->data(model_->index(row, column), Qt::DisplayRole).toString());
    }
    lines.append(fields.join(u'\t'));
  }
  return lines.join(u'\n') + u'\n';
}

std::optional<analysis::MethodResult> RunsTable::SelectedRun() const {
  for (int row = 0; row < model_->rowCount(); ++row) {
    const analysis::MethodResult& run = model_->runs()[static_cast<size_t>(row)];
    if (view_->selectionModel()->isRowSelected(row, {}) && !IsDenseRun(run)) return run;
  }
  return std::nullopt;
}

QWidget* MakeRunsPane(WindowState* state) {
  return new RunsTable(state);
}

}  // namespace headscope::ui
