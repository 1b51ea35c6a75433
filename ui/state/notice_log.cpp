// SPDX-License-Identifier: Apache-2.0
#include "notice_log.h"

#include <QBrush>
#include <QGuiApplication>

#include "error_ink.h"
#include "shown_text.h"

namespace headscope::ui {

void NoticeLog::Add(Kind kind, const QString& sentence) {
  if (entries_.size() == kMost) {
    beginRemoveRows({}, 0, 0);
    entries_.pop_front();
    endRemoveRows();
  }
  const int row = rowCount();
  beginInsertRows({}, row, row);
  entries_.push_back({QDateTime::currentDateTime(), kind, Shown(sentence)});
  endInsertRows();
}

void NoticeLog::Clear() {
  beginResetModel();
  entries_.clear();
  endResetModel();
}

QString NoticeLog::AsText(const std::vector<int>& rows) const {
  QString text;
  const auto add = [&](const Entry& entry) {
    text += entry.time.toString(QStringLiteral("yyyy-MM-dd HH:mm:ss")) +
            (entry.kind == Kind::kError ? QStringLiteral("  error  ") : QStringLiteral("  ")) + entry.sentence + u'\n';
  };
  for (const int row : rows) add(entries_.at(static_cast<size_t>(row)));
  if (rows.empty()) {
    for (const Entry& entry : entries_) add(entry);
  }
  return text;
}

int NoticeLog::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(entries_.size());
}
int NoticeLog::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kNumColumns;
}

QVariant NoticeLog::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const Entry& entry = entries_[static_cast<size_t>(index.row())];
  switch (role) {
    case Qt::DisplayRole:
      return index.column() == kTime ? entry.time.toString(QStringLiteral("HH:mm:ss")) : entry.sentence;
    case Qt::ToolTipRole:
      return index.column() == kTime ? entry.time.toString(QStringLiteral("yyyy-MM-dd HH:mm:ss"))
                                     : ShownToolTip(entry.sentence);
    case Qt::ForegroundRole:
      return entry.kind == Kind::kError ? QVariant(QBrush(ErrorInk(QGuiApplication::palette()))) : QVariant();
    default:
      return {};
  }
}

QVariant NoticeLog::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  return section == kTime ? tr("Time") : tr("Message");
}

}  // namespace headscope::ui
