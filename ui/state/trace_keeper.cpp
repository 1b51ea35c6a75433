// SPDX-License-Identifier: Apache-2.0
#include "trace_keeper.h"

#include <QCryptographicHash>
#include <QFileInfo>
#include <QJsonArray>
#include <QSet>
#include <QUuid>
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "shown_text.h"
#include "state_file.h"

namespace headscope::ui {
namespace {

constexpr qint64 kMostTraceStateBytes = 32 << 20;
constexpr size_t kMostLengths = 32;  // of a trace that has grown: each takes a pass over its tokens
const QString kSchemaMember = QStringLiteral("schema"), kSchema = QStringLiteral("headscope-trace-state-1");
const QString kRunsMember = QStringLiteral("runs"), kNotesMember = QStringLiteral("notes"),
              kTuningsMember = QStringLiteral("tunings"), kViewMember = QStringLiteral("view"),
              kTraceMember = QStringLiteral("trace");
// In the settings folder: ids of entries of the file beside the trace, which are gone though that file takes no change.
const QString kGoneMember = QStringLiteral("gone");
// Of an entry of a list.
const QString kIdMember = QStringLiteral("id"), kContentsMember = QStringLiteral("contents"),
              kTokensMember = QStringLiteral("tokens"), kRunMember = QStringLiteral("run"),
              kNoteMember = QStringLiteral("note"), kTuningMember = QStringLiteral("tuning");

QString IdOf(const QJsonValue& entry) {
  return entry[kIdMember].toString();
}

// A file that is there and not ours holds no schema.
bool IsOurs(const QJsonObject& json) {
  return json.isEmpty() || json[kSchemaMember] == kSchema;
}

// A newer measurement of the same takes the place of the one before, as in the table.
bool MeasureTheSame(const QJsonValue& a, const QJsonValue& b) {
  if (a[kContentsMember] != b[kContentsMember] || !a[kRunMember].isObject() || !b[kRunMember].isObject()) return false;
  const QJsonValue run = a[kRunMember], other = b[kRunMember];
  return std::ranges::all_of(std::array{"layer", "head", "phase", "method", "parameters", "device"},
                             [&](const char* name) { return run[QLatin1String(name)] == other[QLatin1String(name)]; });
}

// How long the trace was, longest first, when the entries of a list were made that are not of these contents.
std::set<int64_t, std::greater<>> LengthsOfLess(const std::vector<QJsonObject>& files, const QString& list,
                                                const QString& contents, int64_t tokens_now) {
  std::set<int64_t, std::greater<>> lengths;
  for (const QJsonObject& json : files) {
    for (const QJsonValue entry : json[list].toArray()) {
      const int64_t tokens = entry[kTokensMember].toInteger();
      if (tokens > 0 && tokens < tokens_now && entry[kContentsMember] != contents) lengths.insert(tokens);
    }
  }
  return lengths;
}

using Changes = TraceKeeper::Changes;

// Calls visit(entry, goes) for each entry; one goes that is dropped, or replaced by a newer one.
template <typename Visit>
void VisitEntries(const QJsonArray& present, const Changes& changes, const Visit& visit) {
  const QSet<QString> dropped(changes.dropped.begin(), changes.dropped.end());
  for (const QJsonValue entry : present) {
    const bool replaced = std::ranges::any_of(changes.added, [&](const QJsonObject& newer) {
      return IdOf(newer) == IdOf(entry) || MeasureTheSame(newer, entry);
    });
    visit(entry, replaced || dropped.contains(IdOf(entry)));
  }
}

QJsonArray Changed(const QJsonArray& present, const Changes& changes) {
  if (changes.IsEmpty()) return present;
  QJsonArray entries;
  VisitEntries(present, changes, [&](const QJsonValue& entry, bool goes) {
    if (!goes) entries.append(entry);
  });
  for (const QJsonObject& entry : changes.added) entries.append(entry);
  return entries;
}

// A list that nobody has added to is not made.
QJsonObject WithEntries(const QJsonObject& present, const TraceKeeper::Lists& lists) {
  QJsonObject changed = present;
  changed[kSchemaMember] = kSchema;
  changed[kRunsMember] = Changed(present[kRunsMember].toArray(), lists.runs);
  for (const auto& [name, changes] :
       {std::pair(kNotesMember, &lists.notes), std::pair(kTuningsMember, &lists.tunings)}) {
    if (present.contains(name) || !changes->added.empty()) changed[name] = Changed(present[name].toArray(), *changes);
  }
  return changed;
}

QSet<QString> GoneIn(const QJsonObject& json) {
  QSet<QString> gone;
  for (const QJsonValue id : json[kGoneMember].toArray()) gone.insert(id.toString());
  return gone;
}

QJsonObject WithGone(QJsonObject json, const QSet<QString>& gone) {
  QStringList ids(gone.begin(), gone.end());
  ids.sort();  // the same file for the same set
  json.remove(kGoneMember);
  if (!ids.isEmpty()) json[kGoneMember] = QJsonArray::fromStringList(ids);
  return json;
}

// Ids of the entries of a file that the changes drop or replace, whatever list they are of.
QSet<QString> GoneFrom(const QJsonObject& json, const TraceKeeper::Lists& lists) {
  QSet<QString> gone;
  for (const auto& [name, changes] : {std::pair(kRunsMember, &lists.runs), std::pair(kNotesMember, &lists.notes),
                                      std::pair(kTuningsMember, &lists.tunings)}) {
    VisitEntries(json[name].toArray(), *changes, [&](const QJsonValue& entry, bool goes) {
      if (goes) gone.insert(IdOf(entry));
    });
  }
  return gone;
}

QSet<QString> AddedIds(const TraceKeeper::Lists& lists) {
  QSet<QString> ids;
  for (const Changes* changes : {&lists.runs, &lists.notes, &lists.tunings}) {
    for (const QJsonObject& entry : changes->added) ids.insert(IdOf(entry));
  }
  return ids;
}

QSet<QString> DroppedIds(const TraceKeeper::Lists& lists) {
  QSet<QString> ids;
  for (const Changes* changes : {&lists.runs, &lists.notes, &lists.tunings}) {
    for (const QString& id : changes->dropped) ids.insert(id);
  }
  return ids;
}

QJsonObject Without(const QSet<QString>& gone, const QJsonObject& json) {
  const Changes dropped{.added = {}, .dropped = gone.values()};
  return WithEntries(json, {.runs = dropped, .notes = dropped, .tunings = dropped});
}

// A new state of an entry takes the place of what is not written yet of it.
void Put(const QJsonObject& entry, Changes* changes) {
  changes->dropped.removeAll(IdOf(entry));
  std::erase_if(changes->added, [&](const QJsonObject& older) { return IdOf(older) == IdOf(entry); });
  changes->added.push_back(entry);
}

void Drop(const QString& id, Changes* changes) {
  std::erase_if(changes->added, [&](const QJsonObject& older) { return IdOf(older) == id; });
  changes->dropped.append(id);
}

// Takes out what has been written.
void Settle(const Changes& written, Changes* changes) {
  std::erase_if(changes->added, [&](const QJsonObject& entry) {
    return std::ranges::find(written.added, entry) != written.added.end();
  });
  for (const QString& id : written.dropped) changes->dropped.removeAll(id);
}

}  // namespace

TraceKeeper::TraceKeeper(StateWriter* writer, const QString& settings_folder, QObject* parent)
    : QObject(parent), writer_(writer), folder_(settings_folder + QStringLiteral("/traces")) {}

QString TraceKeeper::FileBeside(const QString& trace_path) {
  return trace_path + QStringLiteral(".headscope.json");
}

QString TraceKeeper::FileOfRuns() const {
  if (trace_.isEmpty() || num_unkept() > 0) return {};
  // Whoever reads the file goes by the name of the trace, and tells neither other contents nor other windows' runs
  // apart.
  const QString name = QFileInfo(trace_).fileName();
  const auto is_shown = [&](const QJsonValue& entry) {
    return shown_.contains(IdOf(entry)) && entry[kContentsMember] == contents_ &&
           QFileInfo(entry[kRunMember][QLatin1String("trace")].toString()).fileName() == name;
  };
  QString only;  // of the two files the one that has runs
  for (const QString& path : {FileBeside(trace_), FileInSettings(trace_)}) {
    const QJsonObject json = ReadStateFile(path, kMostTraceStateBytes);
    const QJsonArray runs = json[kRunsMember].toArray();
    if (!IsOurs(json) || runs.isEmpty()) continue;
    if (!only.isEmpty() || !std::ranges::all_of(runs, is_shown)) return {};
    only = path;
  }
  return only;
}

QString TraceKeeper::FileInSettings(const QString& trace_path) const {
  const QByteArray name = QCryptographicHash::hash(trace_path.toUtf8(), QCryptographicHash::Sha256).toHex().left(32);
  return folder_ + u'/' + QString::fromLatin1(name) + QStringLiteral(".json");
}

TraceKeeper::Kept TraceKeeper::Open(const QString& trace_path, const QString& contents, const Notes& carried,
                                    const TraceLength& length) {
  trace_ = trace_path;
  contents_ = contents;
  tokens_ = length.tokens;
  runs_ = notes_ = tunings_ = {};
  shown_.clear();
  told_elsewhere_ = told_of_tuning_ = told_hidden_ = false;
  Kept kept;
  QSet<QString> runs, notes, tunings;  // by their ids
  Notes grown = carried;
  std::map<int64_t, QString> names;
  const auto is_of_less = [&](const QJsonValue& entry) {
    const auto name = names.find(entry[kTokensMember].toInteger());
    return name != names.end() && !name->second.isEmpty() && entry[kContentsMember] == name->second;
  };
  std::vector<QJsonObject> files;
  QSet<QString> gone;
  QStringList errors;
  for (const QString& path : {FileInSettings(trace_), FileBeside(trace_)}) {
    QString error;
    QJsonObject json = ReadStateFile(path, kMostTraceStateBytes, &error);
    if (!error.isEmpty()) errors << error;
    if (!IsOurs(json)) continue;
    if (!gone.isEmpty()) json = Without(gone, json);
    gone = GoneIn(json);
    files.push_back(std::move(json));
  }
  kept.error = errors.join(u' ');
  // Notes before runs: they are shown, and the runs are counted.
  std::set<int64_t> left_out;
  for (const QString& list : {kNotesMember, kRunsMember, kTuningsMember}) {
    if (!length.contents_of_first) break;
    for (const int64_t tokens : LengthsOfLess(files, list, contents_, length.tokens)) {
      if (names.contains(tokens)) continue;
      if (names.size() < kMostLengths)
        names.emplace(tokens, length.contents_of_first(tokens));
      else
        left_out.insert(tokens);
    }
  }
  kept.num_lengths_left_out = static_cast<int>(left_out.size());
  for (const QJsonObject& json : files) {
    if (json[kViewMember].isObject()) kept.view = json[kViewMember].toObject();
    for (const QJsonValue entry : json[kRunsMember].toArray()) {
      const QString id = IdOf(entry);
      if (id.isEmpty() || runs.contains(id)) continue;
      const bool is_of_all = entry[kContentsMember] == contents_;
      if (!is_of_all && !is_of_less(entry)) continue;
      runs.insert(id);
      if (is_of_all) {
        shown_.append(id);
        kept.runs.push_back(entry[kRunMember].toObject());
      } else {
        ++kept.num_runs_of_less;
        kept.tokens_of_less = std::max<int64_t>(kept.tokens_of_less, entry[kTokensMember].toInteger());
      }
    }
    for (const QJsonValue entry : json[kNotesMember].toArray()) {
      const QString id = IdOf(entry);
      if (id.isEmpty() || notes.contains(id)) continue;
      if (entry[kContentsMember] != contents_) {
        if (is_of_less(entry)) grown.emplace_back(id, entry[kNoteMember].toObject());
        continue;
      }
      notes.insert(id);
      kept.notes.emplace_back(id, entry[kNoteMember].toObject());
    }
    for (const QJsonValue entry : json[kTuningsMember].toArray()) {
      const QString id = IdOf(entry);
      if (id.isEmpty() || tunings.contains(id)) continue;
      const bool is_of_all = entry[kContentsMember] == contents_;
      if (!is_of_all && !is_of_less(entry)) continue;
      tunings.insert(id);
      if (is_of_all) {
        kept.tunings.emplace_back(id, entry[kTuningMember].toObject());
      } else {
        ++kept.num_tunings_of_less;
        kept.tokens_of_tunings = std::max<int64_t>(kept.tokens_of_tunings, entry[kTokensMember].toInteger());
      }
    }
  }
  view_ = kept.view;
  for (const auto& [id, note] : grown) {
    if (notes.contains(id)) continue;
    notes.insert(id);
    kept.notes.emplace_back(id, note);
    KeepNote(id, note);
  }
  return kept;
}

QString TraceKeeper::Kept::WhatIsNotShown() const {
  QStringList sentences;
  if (num_runs_of_less == 1) {
    sentences << tr("The trace has grown since it was measured: 1 run of its first %1 tokens stays in its file and is "
                    "not shown.")
                     .arg(CountText(tokens_of_less));
  } else if (num_runs_of_less > 1) {
    sentences << tr("The trace has grown since it was measured: %1 runs of at most its first %2 tokens stay in its "
                    "file and are not shown.")
                     .arg(CountText(num_runs_of_less))
                     .arg(CountText(tokens_of_less));
  }
  if (num_tunings_of_less == 1) {
    sentences << tr("The trace has grown since it was tuned: a tuning of its first %1 tokens stays in its file and is "
                    "not offered.")
                     .arg(CountText(tokens_of_tunings));
  } else if (num_tunings_of_less > 1) {
    sentences << tr("The trace has grown since it was tuned: %1 tunings of at most its first %2 tokens stay in its "
                    "file and are not offered.")
                     .arg(CountText(num_tunings_of_less))
                     .arg(CountText(tokens_of_tunings));
  }
  if (num_lengths_left_out > 0) {
    const QString lengths =
        num_lengths_left_out == 1 ? tr("1 other length") : tr("%1 other lengths").arg(CountText(num_lengths_left_out));
    sentences
        << tr("Notes, runs and tunings from %1 of this trace are kept in its file but not shown (limit: %2 lengths).")
               .arg(lengths, CountText(kMostLengths));
  }
  return sentences.join(u' ');
}

void TraceKeeper::KeepView(const QJsonObject& view) {
  if (trace_.isEmpty() || view == view_) return;
  view_ = view;
  const QString path = FileInSettings(trace_);
  // How a trace was looked at is not worth a word when it cannot be kept.
  writer_->Write(QStringLiteral("view ") + trace_, [path, view, trace = trace_] {
    return UpdateStateFile(path, kMostTraceStateBytes, /*keep_foreign=*/false, [&](const QJsonObject& present) {
      QJsonObject changed = present;
      changed[kSchemaMember] = kSchema;
      changed[kTraceMember] = trace;
      changed[kViewMember] = view;
      return changed;
    });
  });
}

void TraceKeeper::KeepRun(const QJsonObject& run) {
  if (trace_.isEmpty()) return;
  const QString id = QUuid::createUuid().toString(QUuid::WithoutBraces);
  shown_.append(id);
  const QJsonObject entry{
      {kIdMember, id}, {kContentsMember, contents_}, {kTokensMember, qint64(tokens_)}, {kRunMember, run}};
  std::erase_if(runs_.added, [&](const QJsonObject& older) { return MeasureTheSame(older, entry); });
  runs_.added.push_back(entry);
  WriteEntries();
}

void TraceKeeper::DropRuns() {
  if (shown_.isEmpty()) return;
  runs_.dropped += shown_;
  shown_.clear();
  runs_.added.clear();
  WriteEntries();
}

void TraceKeeper::KeepNote(const QString& id, const QJsonObject& note) {
  if (trace_.isEmpty()) return;
  Put({{kIdMember, id}, {kContentsMember, contents_}, {kTokensMember, qint64(tokens_)}, {kNoteMember, note}}, &notes_);
  WriteEntries();
}

void TraceKeeper::DropNote(const QString& id) {
  if (trace_.isEmpty()) return;
  Drop(id, &notes_);
  WriteEntries();
}

void TraceKeeper::KeepTuning(const QString& id, const QJsonObject& tuning) {
  if (trace_.isEmpty()) return;
  Put({{kIdMember, id}, {kContentsMember, contents_}, {kTokensMember, qint64(tokens_)}, {kTuningMember, tuning}},
      &tunings_);
  WriteTunings();
}

void TraceKeeper::DropTuning(const QString& id) {
  if (trace_.isEmpty()) return;
  Drop(id, &tunings_);
  WriteTunings();
}

std::optional<QJsonObject> TraceKeeper::FindTuning(const QString& id) const {
  if (trace_.isEmpty()) return std::nullopt;
  QSet<QString> gone;
  for (const QString& path : {FileInSettings(trace_), FileBeside(trace_)}) {
    const QJsonObject json = ReadStateFile(path, kMostTraceStateBytes);
    if (!IsOurs(json) || gone.contains(id)) continue;
    gone = GoneIn(json);
    for (const QJsonValue entry : json[kTuningsMember].toArray()) {
      if (IdOf(entry) == id && entry[kContentsMember] == contents_) return entry[kTuningMember].toObject();
    }
  }
  return std::nullopt;
}

void TraceKeeper::WriteEntries() {
  const Lists lists{.runs = runs_, .notes = notes_, .tunings = {}};
  WriteLists(QStringLiteral("entries"), lists, [this, lists](const QString& error) {
    if (!error.isEmpty()) {
      Q_EMIT Failed(error);
      return;
    }
    Settle(lists.runs, &runs_);
    Settle(lists.notes, &notes_);
    if (runs_.added.empty()) Q_EMIT RunsKept();
  });
}

void TraceKeeper::WriteTunings() {
  const Lists lists{.runs = {}, .notes = {}, .tunings = tunings_};
  WriteLists(QStringLiteral("tunings"), lists, [this, lists](const QString& error) {
    if (!error.isEmpty()) {
      // They are written every few seconds while a tuning runs.
      if (!std::exchange(told_of_tuning_, true)) Q_EMIT TuningFailed(error);
      return;
    }
    told_of_tuning_ = false;
    Settle(lists.tunings, &tunings_);
  });
}

void TraceKeeper::WriteLists(const QString& key, const Lists& lists, std::function<void(const QString& error)> done) {
  // By whom the work is waited for may be looking at another trace by then: it takes all that it needs along.
  const auto elsewhere = std::make_shared<QString>();  // why the file beside the trace takes nothing
  const auto hidden = std::make_shared<QString>();
  const QString beside = FileBeside(trace_), in_settings = FileInSettings(trace_);
  const bool adds = !lists.runs.added.empty() || !lists.notes.added.empty() || !lists.tunings.added.empty();
  writer_->Write(
      QStringLiteral("%1 %2 ").arg(key, contents_) + trace_,  // of what it held before they are written, too
      [beside, in_settings, elsewhere, hidden, lists, adds] {
        const auto put = [&](const QJsonObject& present) { return WithEntries(present, lists); };
        // A JSON object that somebody else keeps under this name is not to be changed either.
        QString error;
        if (!IsOurs(ReadStateFile(beside, kMostTraceStateBytes, &error)))
          error = QStringLiteral("%1 was not written by headscope.").arg(beside);
        if (error.isEmpty() && (adds || QFileInfo::exists(beside)))
          error = UpdateStateFile(beside, kMostTraceStateBytes, /*keep_foreign=*/true, put);
        *elsewhere = error;
        if (!error.isEmpty()) {
          const QJsonObject fixed = ReadStateFile(beside, kMostTraceStateBytes);
          const QSet<QString> gone = IsOurs(fixed) ? GoneFrom(fixed, lists) : QSet<QString>();
          return UpdateStateFile(
              in_settings, kMostTraceStateBytes, /*keep_foreign=*/false,
              [&](const QJsonObject& present) { return WithGone(put(present), GoneIn(present) | gone); });
        }
        // The file beside the trace has taken the change. What the other one has of it from another time comes first
        // when the trace is opened, and what has come back is no longer gone.
        const QSet<QString> added = AddedIds(lists);
        const QJsonObject there = ReadStateFile(in_settings, kMostTraceStateBytes);
        const QSet<QString> stale = GoneFrom(there, lists);
        if (stale.isEmpty() && !GoneIn(there).intersects(added)) return QString();
        const QString not_updated =
            UpdateStateFile(in_settings, kMostTraceStateBytes, /*keep_foreign=*/false, [&](const QJsonObject& present) {
              return WithGone(Without(GoneFrom(present, lists), present), GoneIn(present) - added);
            });
        // What is added is in a file all the same; what is dropped would come back.
        if (stale.intersects(DroppedIds(lists))) return not_updated;
        if (stale.intersects(added) || GoneIn(there).intersects(added)) *hidden = not_updated;
        return QString();
      },
      [this, trace = trace_, contents = contents_, in_settings, elsewhere, hidden, adds,
       done = std::move(done)](const QString& error) {
        if (!error.isEmpty()) return done(error);
        if (trace != trace_ || contents != contents_) return;
        done({});
        if (!hidden->isEmpty() && !std::exchange(told_hidden_, true)) Q_EMIT Hidden(*hidden);
        if (!elsewhere->isEmpty() && adds && !std::exchange(told_elsewhere_, true))
          Q_EMIT RunsKeptElsewhere(in_settings, *elsewhere);
      });
}

}  // namespace headscope::ui
