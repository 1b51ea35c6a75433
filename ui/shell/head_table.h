// SPDX-License-Identifier: Apache-2.0
// The head table: the matrix' numbers, sortable and filtered.
#pragma once

#include <QAbstractTableModel>
#include <QJsonObject>
#include <QLabel>
#include <QLineEdit>
#include <QSortFilterProxyModel>
#include <QTableView>
#include <QWidget>
#include <map>

#include "head_filter.h"
#include "head_store.h"

namespace headscope::ui {

// One row a head. DisplayRole is text, kSortRole the number behind it, kHeadRole {layer, head}.
class HeadTableModel : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kLayer, kHead, kKvHead, kClass, kRows, kFirstMetric };
  enum Role { kSortRole = Qt::UserRole, kMetricNameRole };

  explicit HeadTableModel(HeadStore* store, QObject* parent = nullptr);
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

  analysis::HeadId HeadAt(int row) const { return store_->trace().heads[static_cast<size_t>(row)]; }
  int RowOf(analysis::HeadId head) const;  // -1 when there is none
  // The last one: how the other trace's heads differ in the matrix's metric. It is sorted by magnitude.
  static int DifferenceColumn();
  // "layer", "head", "kv_head", "class", "rows", "difference", or the metric's name.
  static QString ColumnName(int column);

 private:
  QVariant Value(const analysis::HeadId& head, int row, int column) const;
  HeadStore* const store_;
};

class HeadTable : public QWidget {
  Q_OBJECT

 public:
  explicit HeadTable(HeadStore* store, QWidget* parent = nullptr);

  // Filter, sort order and shown columns, for the session file. Restore takes what it understands and ignores what is
  // missing, unknown or of a wrong type: session files are untrusted.
  QJsonObject ViewState() const;
  void RestoreViewState(const QJsonObject& state);

  const QTableView* view() const { return view_; }

 Q_SIGNALS:
  void HeadActivated(headscope::analysis::HeadId head);
  void HeadsMenuWanted(const std::vector<headscope::analysis::HeadId>& heads, QPoint global,
                       const QList<QAction*>& more);
  void ViewStateChanged();

 protected:
  // Keys that leave the filter for its first hit, and the rows' menu.
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void ApplyFilter(const QString& text);
  void SayWhetherNoneMatches();
  void OpenRow(const QModelIndex& row);
  // Makes the open head's row the current one, or none where the filter hides it; returns it.
  QModelIndex MarkOpenRow();
  void ShowOpenRow();   // and scrolls to it
  QMenu* ColumnMenu();  // of the columns that can be hidden
  void ShowColumnMenu(QPoint position);
  void ShowDifferences();  // the column of them, while there are any
  // Of the row, or of all that are selected if it is one of them.
  void AskForHeadsMenu(const QModelIndex& row, QPoint global);

  HeadStore* const store_;
  HeadTableModel* model_;
  QSortFilterProxyModel* proxy_;
  QLabel* count_;  // how many heads pass
  QLineEdit* filter_;
  QString filter_error_;
  QLabel* not_understood_;  // below the filter: what is wrong with it
  QLabel* no_match_;        // over an empty table
  QTableView* view_;
  bool following_ = false;  // the current row is being set, and opens nothing
};

}  // namespace headscope::ui
