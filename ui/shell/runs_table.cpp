// SPDX-License-Identifier: Apache-2.0
#include "runs_table.h"

#include <QFont>
#include <QHeaderView>
#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>
#include <vector>

#include "panes.h"
#include "selected_rows.h"
#include "table_picture.h"
#include "window_state.h"
#include "wrapped_header.h"

namespace headscope::ui {

RunsTable::RunsTable(WindowState* state, QWidget* parent) : QWidget(parent), model_(&state->runs) {
  view_ = new QTableView(this);
  view_->setObjectName(QStringLiteral("runsTable"));
  view_->setAccessibleName(tr("Runs"));
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
  connect(view_, &QTableView::customContextMenuRequested, this, [this, state](QPoint at) {
    Q_EMIT state->offers.RunsMenuWanted(view_->viewport()->mapToGlobal(at), {SortMenu(view_)->menuAction()});
  });
  connect(header, &QHeaderView::sortIndicatorChanged, &state->offers, &PaneOffers::ViewChanged);
  connect(view_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] {
    std::vector<int> rows;
    for (const QModelIndex& row : view_->selectionModel()->selectedRows()) rows.push_back(row.row());
    std::sort(rows.begin(), rows.end());
    model_->SetSelected(std::move(rows));
  });
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 6, 6, 6);
  layout->addWidget(view_);
  auto* hint =
      new QLabel(tr("No runs yet. Ctrl+R measures the panel's method on this head, Ctrl+Shift+R every method, "
                    "Ctrl+Shift+T every method of its phase at the target mass."));
  hint->setObjectName(QStringLiteral("runsHint"));
  hint->setAlignment(Qt::AlignCenter);
  hint->setWordWrap(true);
  hint->setForegroundRole(QPalette::PlaceholderText);
  auto* over_rows = new QVBoxLayout(view_->viewport());
  over_rows->addWidget(hint);
  connect(model_, &QAbstractItemModel::modelReset, hint, [this, hint] { hint->setVisible(model_->rowCount() == 0); });
}

QJsonObject RunsTable::ViewState() const {
  const QHeaderView* const header = view_->horizontalHeader();
  return {{QStringLiteral("sort"),
           QString::fromUtf8(RunColumns()[static_cast<size_t>(header->sortIndicatorSection())].title)},
          {QStringLiteral("descending"), header->sortIndicatorOrder() == Qt::DescendingOrder}};
}

void RunsTable::RestoreViewState(const QJsonObject& state) {
  // By its title: another version may have other columns.
  for (int column = 0; column < RunsModel::kNumColumns; ++column) {
    if (state[QLatin1String("sort")] != QString::fromUtf8(RunColumns()[static_cast<size_t>(column)].title)) continue;
    const bool descending = state[QLatin1String("descending")].toBool();
    view_->sortByColumn(column, descending ? Qt::DescendingOrder : Qt::AscendingOrder);
  }
}

QWidget* MakeRunsPane(WindowState* state) {
  auto* table = new RunsTable(state);
  state->offers.OfferView(
      table, QStringLiteral("runs"),
      {[table] { return table->ViewState(); }, [table](const QJsonObject& view) { table->RestoreViewState(view); }});
  state->offers.OfferPicture(
      table, {.name = QStringLiteral("runs"),
              .title = QObject::tr("Runs"),
              .write = {},
              .why_not = [state] { return state->runs.rowCount() == 0 ? QObject::tr("no runs yet") : QString(); },
              .table = [table] { return DrawingOf(*table->view(), QObject::tr("Runs")); }});
  return table;
}

}  // namespace headscope::ui
