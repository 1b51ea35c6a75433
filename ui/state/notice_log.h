// SPDX-License-Identifier: Apache-2.0
// What the window has said: errors and news with their time, oldest first. A list that panes show.
#pragma once

#include <QAbstractTableModel>
#include <QDateTime>
#include <QString>
#include <deque>
#include <vector>

namespace headscope::ui {

class NoticeLog : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kTime, kText, kNumColumns };
  enum class Kind { kNews, kError };
  static constexpr size_t kMost = 1000;  // the oldest go first

  using QAbstractTableModel::QAbstractTableModel;
  void Add(Kind kind, const QString& sentence);
  void Clear();
  // Of these rows, or of all where there are none: a line each, with date and time.
  QString AsText(const std::vector<int>& rows) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  struct Entry {
    QDateTime time;
    Kind kind = Kind::kNews;
    QString sentence;  // as it can be shown
  };
  std::deque<Entry> entries_;
};

}  // namespace headscope::ui
