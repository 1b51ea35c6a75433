// SPDX-License-Identifier: Apache-2.0
// What a person writes down about a trace: bookmarks (a place on a head's map, with a note) and tags on heads. A table
// that panes show, whose changes can be undone and are told of one by one, so that they can be kept as they are made.
#pragma once

#include <QAbstractTableModel>
#include <QJsonObject>
#include <QString>
#include <QStringList>
#include <QUndoStack>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ui/workbench.h"

namespace headscope::ui {

struct TraceNote {
  enum class Kind { kPlace, kTag };
  QString id;    // unique among all windows
  QString made;  // when, UTC: their order
  Kind kind = Kind::kPlace;
  analysis::HeadId head;
  // Of a place: recorded query rows and keys.
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  QString text;  // the note, or the tag
  friend bool operator==(const TraceNote&, const TraceNote&) = default;

  QJsonObject ToJson() const;
  // Nothing for what is no note of this trace: files are untrusted.
  static std::optional<TraceNote> FromJson(const QString& id, const QJsonObject& json, const TraceSummary& trace);
};

class TraceNotes : public QAbstractTableModel {
  Q_OBJECT

 public:
  enum Column { kHead, kPlace, kText, kNumColumns };
  static constexpr qsizetype kLongestText = 2000;

  // `undo` outlives the notes.
  explicit TraceNotes(QUndoStack* undo, QObject* parent = nullptr);

  // Of another trace: those that were kept. No step of undo.
  void Open(const TraceSummary& trace, const std::vector<std::pair<QString, QJsonObject>>& kept);
  const std::vector<TraceNote>& notes() const { return notes_; }
  std::vector<TraceNote> Places() const;
  QStringList TagsOf(analysis::HeadId head) const;

  // Each is one step of undo. A tag that the head has, or one without text, is not added.
  QString AddPlace(analysis::HeadId head, int64_t row_begin, int64_t row_end, int64_t column_begin, int64_t column_end,
                   const QString& text);
  void AddTag(analysis::HeadId head, const QString& text);
  void Remove(const std::vector<int>& rows);
  int RowOf(const QString& id) const;  // -1: none

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;
  bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override;

 Q_SIGNALS:
  void Put(const QString& id, const QJsonObject& note);  // new, or changed
  void Dropped(const QString& id);
  void TagsChanged(headscope::analysis::HeadId head);

 private:
  class Step;
  void Set(const TraceNote& note);  // in its place in the order
  void Erase(const QString& id);
  QString PlaceText(const TraceNote& note) const;
  QString LastMade() const { return notes_.empty() ? QString() : notes_.back().made; }

  QUndoStack* const undo_;
  TraceSummary trace_;
  std::vector<TraceNote> notes_;  // by `made`, then id
};

}  // namespace headscope::ui
