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
              kViewMember = QStringLiteral("view"), kTraceMember = QStringLiteral("trace");
// Of an entry of a list.
const QString kIdMember = QStringLiteral("id"), kContentsMember = QStringLiteral("contents"),
              kTokensMember = QStringLiteral("tokens"), kRunMember = QStringLiteral("run"),
              kNoteMember = QStringLiteral("note");

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

QJsonArray Changed(const QJsonArray& present, const Changes& changes) {
  QJsonArray entries;
  const QSet<QString> dropped(changes.dropped.begin(), changes.dropped.end());
  for (const QJsonValue entry : present) {
    const bool replaced = std::ranges::any_of(changes.added, [&](const QJsonObject& newer) {
      return IdOf(newer) == IdOf(entry) || MeasureTheSame(newer, entry);
    });
    if (!replaced && !dropped.contains(IdOf(entry))) entries.append(entry);
  }
  for (const QJsonObject& entry : changes.added) entries.append(entry);
  return entries;
}

// A list that nobody has added to is not made.
QJsonObject WithEntries(const QJsonObject& present, const Changes& runs, const Changes& notes) {
  QJsonObject changed = present;
  changed[kSchemaMember] = kSchema;
  changed[kRunsMember] = Changed(present[kRunsMember].toArray(), runs);
  if (present.contains(kNotesMember) || !notes.added.empty())
    changed[kNotesMember] = Changed(present[kNotesMember].toArray(), notes);
  return changed;
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
  runs_ = notes_ = {};
  shown_.clear();
  told_elsewhere_ = false;
  Kept kept;
  QSet<QString> runs, notes;  // by their ids
  Notes grown = carried;
  std::map<int64_t, QString> names;
  const auto is_of_less = [&](const QJsonValue& entry) {
    const auto name = names.find(entry[kTokensMember].toInteger());
    return name != names.end() && !name->second.isEmpty() && entry[kContentsMember] == name->second;
  };
  std::vector<QJsonObject> files;
  for (const QString& path : {FileInSettings(trace_), FileBeside(trace_)}) {
    QJsonObject json = ReadStateFile(path, kMostTraceStateBytes);
    if (IsOurs(json)) files.push_back(std::move(json));
  }
  // Notes before runs: they are shown, and the runs are counted.
  std::set<int64_t> left_out;
  for (const QString& list : {kNotesMember, kRunsMember}) {
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
  if (num_lengths_left_out > 0) {
    const QString lengths =
        num_lengths_left_out == 1 ? tr("1 other length") : tr("%1 other lengths").arg(CountText(num_lengths_left_out));
    sentences << tr("Notes and runs from %1 of this trace are kept in its file but not shown (limit: %2 lengths).")
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
  notes_.dropped.removeAll(id);
  std::erase_if(notes_.added, [&](const QJsonObject& older) { return IdOf(older) == id; });
  notes_.added.push_back(
      {{kIdMember, id}, {kContentsMember, contents_}, {kTokensMember, qint64(tokens_)}, {kNoteMember, note}});
  WriteEntries();
}

void TraceKeeper::DropNote(const QString& id) {
  if (trace_.isEmpty()) return;
  std::erase_if(notes_.added, [&](const QJsonObject& older) { return IdOf(older) == id; });
  notes_.dropped.append(id);
  WriteEntries();
}

void TraceKeeper::WriteEntries() {
  // By whom the work is waited for may be looking at another trace by then: it takes all that it needs along.
  const auto elsewhere = std::make_shared<bool>(false);
  const QString beside = FileBeside(trace_), in_settings = FileInSettings(trace_);
  writer_->Write(
      QStringLiteral("entries %1 ").arg(contents_) + trace_,  // of what it held before they are written, too
      [beside, in_settings, elsewhere, runs = runs_, notes = notes_] {
        const auto put = [&](const QJsonObject& present) { return WithEntries(present, runs, notes); };
        const auto drop = [&](const QJsonObject& present) {
          return WithEntries(present, {{}, runs.dropped}, {{}, notes.dropped});
        };
        const bool adds = !runs.added.empty() || !notes.added.empty();
        // A JSON object that somebody else keeps under this name is not to be changed either.
        QString error;
        if (!IsOurs(ReadStateFile(beside, kMostTraceStateBytes, &error)))
          error = QStringLiteral("%1 was not written by headscope.").arg(beside);
        if (error.isEmpty() && (adds || QFileInfo::exists(beside)))
          error = UpdateStateFile(beside, kMostTraceStateBytes, /*keep_foreign=*/true, put);
        *elsewhere = !error.isEmpty();
        if (*elsewhere) return UpdateStateFile(in_settings, kMostTraceStateBytes, /*keep_foreign=*/false, put);
        const bool drops = !runs.dropped.isEmpty() || !notes.dropped.isEmpty();
        if (drops && QFileInfo::exists(in_settings))
          return UpdateStateFile(in_settings, kMostTraceStateBytes, /*keep_foreign=*/false, drop);
        return QString();
      },
      [this, trace = trace_, contents = contents_, in_settings, elsewhere, runs = runs_,
       notes = notes_](const QString& error) {
        if (!error.isEmpty()) {
          Q_EMIT Failed(error);
          return;
        }
        if (trace != trace_ || contents != contents_) return;
        Settle(runs, &runs_);
        Settle(notes, &notes_);
        const bool adds = !runs.added.empty() || !notes.added.empty();
        if (*elsewhere && adds && !std::exchange(told_elsewhere_, true)) Q_EMIT RunsKeptElsewhere(in_settings);
        if (runs_.added.empty()) Q_EMIT RunsKept();
      });
}

}  // namespace headscope::ui
