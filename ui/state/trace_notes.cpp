// SPDX-License-Identifier: Apache-2.0
#include "trace_notes.h"

#include <QDateTime>
#include <QJsonArray>
#include <QUndoCommand>
#include <QUuid>
#include <algorithm>
#include <tuple>
#include <utility>

#include "shown_text.h"

namespace headscope::ui {
namespace {

constexpr char kPlaceKind[] = "place", kTagKind[] = "tag";

bool ComesBefore(const TraceNote& a, const TraceNote& b) {
  return std::tie(a.made, a.id) < std::tie(b.made, b.id);
}

// [begin, end) of a JSON pair, inside of [0, count); nothing for anything else.
std::optional<std::pair<int64_t, int64_t>> RangeOf(const QJsonValue& json, int64_t count) {
  const QJsonArray pair = json.toArray();
  if (pair.size() != 2) return std::nullopt;
  const int64_t begin = pair[0].toInteger(-1), end = pair[1].toInteger(-1);
  if (begin < 0 || begin >= end || end > count) return std::nullopt;
  return std::pair(begin, end);
}

// `last`: after which it comes, whatever the clock says.
TraceNote NewNote(TraceNote::Kind kind, analysis::HeadId head, const QString& text, const QString& last) {
  TraceNote note;
  note.id = QUuid::createUuid().toString(QUuid::WithoutBraces);
  const QDateTime before = QDateTime::fromString(last, Qt::ISODateWithMs);
  QDateTime now = QDateTime::currentDateTimeUtc();
  if (before.isValid() && before >= now) now = before.addMSecs(1);
  note.made = now.toString(Qt::ISODateWithMs);
  note.kind = kind;
  note.head = head;
  note.text = text.trimmed().left(TraceNotes::kLongestText);
  return note;
}

}  // namespace

QJsonObject TraceNote::ToJson() const {
  QJsonObject json{{QStringLiteral("kind"), QLatin1String(kind == Kind::kPlace ? kPlaceKind : kTagKind)},
                   {QStringLiteral("made"), made},
                   {QStringLiteral("head"), QJsonArray{head.layer, head.head}},
                   {QStringLiteral("text"), text}};
  if (kind == Kind::kPlace) {
    json[QStringLiteral("rows")] = QJsonArray{qint64{row_begin}, qint64{row_end}};
    json[QStringLiteral("keys")] = QJsonArray{qint64{column_begin}, qint64{column_end}};
  }
  return json;
}

std::optional<TraceNote> TraceNote::FromJson(const QString& id, const QJsonObject& json, const TraceSummary& trace) {
  TraceNote note;
  note.id = id;
  note.made = json[QStringLiteral("made")].toString();
  note.text = json[QStringLiteral("text")].toString().left(TraceNotes::kLongestText);
  const QJsonArray head = json[QStringLiteral("head")].toArray();
  if (id.isEmpty() || head.size() != 2) return std::nullopt;
  note.head = {head[0].toInt(-1), head[1].toInt(-1)};
  if (!std::binary_search(trace.heads.begin(), trace.heads.end(), note.head)) return std::nullopt;
  const QJsonValue kind = json[QStringLiteral("kind")];
  if (kind == QLatin1String(kTagKind)) {
    note.kind = Kind::kTag;
    return note.text.isEmpty() ? std::nullopt : std::optional(note);
  }
  const auto rows = RangeOf(json[QStringLiteral("rows")], trace.num_rows);
  const auto keys = RangeOf(json[QStringLiteral("keys")], trace.num_tokens);
  if (kind != QLatin1String(kPlaceKind) || !rows || !keys) return std::nullopt;
  std::tie(note.row_begin, note.row_end) = *rows;
  std::tie(note.column_begin, note.column_end) = *keys;
  return note;
}

// From one state of a note to another; nothing: it is not there.
class TraceNotes::Step : public QUndoCommand {
 public:
  Step(TraceNotes* notes, const QString& name, std::optional<TraceNote> before, std::optional<TraceNote> after,
       QUndoCommand* parent)
      : QUndoCommand(name, parent), notes_(notes), before_(std::move(before)), after_(std::move(after)) {}
  void undo() override { Apply(after_, before_); }
  void redo() override { Apply(before_, after_); }

 private:
  void Apply(const std::optional<TraceNote>& from, const std::optional<TraceNote>& to) {
    if (to) {
      notes_->Set(*to);
      Q_EMIT notes_->Put(to->id, to->ToJson());
    } else {
      notes_->Erase(from->id);
      Q_EMIT notes_->Dropped(from->id);
    }
    const TraceNote& note = to ? *to : *from;
    if (note.kind == TraceNote::Kind::kTag) Q_EMIT notes_->TagsChanged(note.head);
  }
  TraceNotes* const notes_;
  const std::optional<TraceNote> before_, after_;
};

TraceNotes::TraceNotes(QUndoStack* undo, QObject* parent) : QAbstractTableModel(parent), undo_(undo) {}

void TraceNotes::Open(const TraceSummary& trace, const std::vector<std::pair<QString, QJsonObject>>& kept) {
  beginResetModel();
  trace_ = trace;
  notes_.clear();
  for (const auto& [id, json] : kept) {
    if (auto note = TraceNote::FromJson(id, json, trace)) notes_.push_back(std::move(*note));
  }
  std::sort(notes_.begin(), notes_.end(), ComesBefore);
  endResetModel();
  for (const TraceNote& note : notes_) {
    if (note.kind == TraceNote::Kind::kTag) Q_EMIT TagsChanged(note.head);
  }
}

std::vector<TraceNote> TraceNotes::Places() const {
  std::vector<TraceNote> places;
  std::copy_if(notes_.begin(), notes_.end(), std::back_inserter(places),
               [](const TraceNote& note) { return note.kind == TraceNote::Kind::kPlace; });
  return places;
}

QStringList TraceNotes::TagsOf(analysis::HeadId head) const {
  QStringList tags;
  for (const TraceNote& note : notes_) {
    if (note.kind == TraceNote::Kind::kTag && note.head == head && !tags.contains(note.text)) tags.append(note.text);
  }
  return tags;
}

QString TraceNotes::AddPlace(analysis::HeadId head, int64_t row_begin, int64_t row_end, int64_t column_begin,
                             int64_t column_end, const QString& text) {
  TraceNote note = NewNote(TraceNote::Kind::kPlace, head, text, LastMade());
  note.row_begin = row_begin;
  note.row_end = row_end;
  note.column_begin = column_begin;
  note.column_end = column_end;
  undo_->push(new Step(this, tr("add bookmark"), std::nullopt, note, nullptr));
  return note.id;
}

void TraceNotes::AddTag(analysis::HeadId head, const QString& text) {
  const TraceNote note = NewNote(TraceNote::Kind::kTag, head, text, LastMade());
  if (note.text.isEmpty() || TagsOf(head).contains(note.text)) return;
  undo_->push(new Step(this, tr("add tag"), std::nullopt, note, nullptr));
}

void TraceNotes::Remove(const std::vector<int>& rows) {
  if (rows.empty()) return;
  auto* all = new QUndoCommand(rows.size() == 1 ? tr("delete note") : tr("delete %1 notes").arg(rows.size()));
  for (const int row : rows) new Step(this, {}, notes_.at(static_cast<size_t>(row)), std::nullopt, all);
  undo_->push(all);
}

int TraceNotes::RowOf(const QString& id) const {
  const auto found = std::find_if(notes_.begin(), notes_.end(), [&](const TraceNote& note) { return note.id == id; });
  return found == notes_.end() ? -1 : static_cast<int>(found - notes_.begin());
}

void TraceNotes::Set(const TraceNote& note) {
  if (const int row = RowOf(note.id); row >= 0) {
    notes_[static_cast<size_t>(row)] = note;
    Q_EMIT dataChanged(index(row, 0), index(row, kNumColumns - 1));
    return;
  }
  const auto place = std::upper_bound(notes_.begin(), notes_.end(), note, ComesBefore);
  const int row = static_cast<int>(place - notes_.begin());
  beginInsertRows({}, row, row);
  notes_.insert(place, note);
  endInsertRows();
}

void TraceNotes::Erase(const QString& id) {
  const int row = RowOf(id);
  if (row < 0) return;
  beginRemoveRows({}, row, row);
  notes_.erase(notes_.begin() + row);
  endRemoveRows();
}

int TraceNotes::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(notes_.size());
}
int TraceNotes::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kNumColumns;
}

QString TraceNotes::PlaceText(const TraceNote& note) const {
  if (note.kind == TraceNote::Kind::kTag) return tr("tag");
  if (note.row_begin == 0 && note.row_end == trace_.num_rows && note.column_begin == 0 &&
      note.column_end == trace_.num_tokens)
    return tr("the whole map");
  const auto position = [this](int64_t row) { return trace_.row_positions.at(static_cast<size_t>(row)); };
  const auto span = [](int64_t first, int64_t last) {
    return first == last ? QString::number(first) : QStringLiteral("%1–%2").arg(first).arg(last);
  };
  return tr("queries %1, keys %2")
      .arg(span(position(note.row_begin), position(note.row_end - 1)), span(note.column_begin, note.column_end - 1));
}

QVariant TraceNotes::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const TraceNote& note = notes_[static_cast<size_t>(index.row())];
  if (role == Qt::EditRole && index.column() == kText) return note.text;
  if (role == Qt::ToolTipRole) return index.column() == kText ? ShownToolTip(note.text) : QString();
  if (role != Qt::DisplayRole) return {};
  switch (index.column()) {
    case kHead:
      return QStringLiteral("%1:%2").arg(note.head.layer).arg(note.head.head);
    case kPlace:
      return PlaceText(note);
    default:
      return Shown(note.text);
  }
}

QVariant TraceNotes::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  static constexpr const char* kTitles[] = {"Head", "Place", "Note"};
  static constexpr const char* kHelp[] = {"layer:head", "the bookmarked part of the map; “tag” for a tag of the head",
                                          "double-click or press F2 to change it"};
  if (role == Qt::DisplayRole) return tr(kTitles[section]);
  if (role == Qt::ToolTipRole) return tr(kHelp[section]);
  return {};
}

Qt::ItemFlags TraceNotes::flags(const QModelIndex& index) const {
  const Qt::ItemFlags flags = QAbstractTableModel::flags(index);
  return index.isValid() && index.column() == kText ? flags | Qt::ItemIsEditable : flags;
}

bool TraceNotes::setData(const QModelIndex& index, const QVariant& value, int role) {
  if (!index.isValid() || role != Qt::EditRole || index.column() != kText) return false;
  const TraceNote before = notes_[static_cast<size_t>(index.row())];
  TraceNote after = before;
  after.text = value.toString().trimmed().left(kLongestText);
  if (after == before || (after.kind == TraceNote::Kind::kTag && after.text.isEmpty())) return false;
  undo_->push(new Step(this, tr("edit note"), before, after, nullptr));
  return true;
}

}  // namespace headscope::ui
