// SPDX-License-Identifier: Apache-2.0
// What the window keeps of each trace: its measured runs, bookmarks, tags and what tunings have found in a file beside
// it (NAME.h5.headscope.json), and how it was looked at in the user's settings folder. What belongs to a trace whose
// folder takes no files goes to the settings folder too.
//
// Several windows may show one trace: each writes what it adds or drops, and every run, note and tuning has an id of
// its own. They know the contents of their trace, so that a trace recorded anew under the same name does not show those
// of the one before. The files are untrusted.
#pragma once

#include <QJsonObject>
#include <QObject>
#include <QString>
#include <QStringList>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "state_writer.h"

namespace headscope::ui {

// How long a trace is, and the name of what it held when it was of so many tokens; empty: not known.
struct TraceLength {
  int64_t tokens = 0;
  std::function<QString(int64_t tokens)> contents_of_first;
};

class TraceKeeper : public QObject {
  Q_OBJECT

 public:
  // `settings_folder`: where session.json lies. `writer` outlives the keeper.
  TraceKeeper(StateWriter* writer, const QString& settings_folder, QObject* parent = nullptr);

  using Notes = std::vector<std::pair<QString, QJsonObject>>;  // by their ids
  struct Kept {
    QJsonObject view;               // as KeepView was given it last; empty: never
    std::vector<QJsonObject> runs;  // oldest first
    Notes notes;
    Notes tunings;  // that nobody has saved, oldest first; another window may be at one
    // Runs of less of this trace, which stay in the file, and the most tokens that one of them is of.
    int num_runs_of_less = 0;
    int64_t tokens_of_less = 0;
    // The same of tunings.
    int num_tunings_of_less = 0;
    int64_t tokens_of_tunings = 0;
    // Lengths that runs, notes and tunings name beyond the most that are looked up, of notes first and the longest
    // first: what is of them stays in the file, whether it is of this trace or not.
    int num_lengths_left_out = 0;
    QString error;  // one sentence for each file that is there and cannot be read; empty: none

    QString WhatIsNotShown() const;  // in sentences; empty: all is
  };
  // Entries of one list of the file: an entry is its id, what contents it is about, and the thing itself.
  struct Changes {
    // Not known to be written yet: entries, oldest first, and ids.
    std::vector<QJsonObject> added;
    QStringList dropped;
    bool IsEmpty() const { return added.empty() && dropped.isEmpty(); }
  };
  struct Lists {
    Changes runs, notes, tunings;
  };

  // Another trace; `contents` names what is recorded in it. What was asked for of the one before is still written.
  // `carried`: notes of less of this trace, which are kept of these contents from now on. So are those in the file that
  // are of its first tokens: it has grown since they were made.
  Kept Open(const QString& trace_path, const QString& contents, const Notes& carried = {},
            const TraceLength& length = {});
  void KeepView(const QJsonObject& view);
  void KeepRun(const QJsonObject& run);
  // Of the open trace, those of other windows that Open has shown among them.
  void DropRuns();
  // Runs that are in no file yet, or cannot be.
  int num_unkept() const { return static_cast<int>(runs_.added.size()); }
  // A new note, or a new state of one: takes the place of the one of that id.
  void KeepNote(const QString& id, const QJsonObject& note);
  void DropNote(const QString& id);
  // A tuning as far as it has come, likewise. They are written apart from runs and notes, which a tuning that is too
  // large for the file must not hold up.
  void KeepTuning(const QString& id, const QJsonObject& tuning);
  void DropTuning(const QString& id);
  // As it is in the file now: another window may have gone on with it, or dropped it.
  std::optional<QJsonObject> FindTuning(const QString& id) const;
  bool HasUnkeptTuning() const { return !tunings_.added.empty(); }

  static QString FileBeside(const QString& trace_path);
  QString FileInSettings(const QString& trace_path) const;
  // The file of which all runs are those on show, for who reads it by itself; empty: there is none.
  QString FileOfRuns() const;

 Q_SIGNALS:
  void RunsKept();  // all of them
  // Once a trace: its folder takes none, and `why` is a sentence.
  void RunsKeptElsewhere(const QString& path, const QString& why);
  void Failed(const QString& sentence);  // runs and notes that no file takes
  // Once a trace: the file beside it has a note or tuning that the one in the settings folder hides, or has as it was.
  void Hidden(const QString& sentence);
  void TuningFailed(const QString& sentence);  // the same of tunings, once until one is written

 private:
  void WriteEntries();
  void WriteTunings();
  // `done` is told what could not be written, unless another trace is open by then and all was written.
  void WriteLists(const QString& key, const Lists& lists, std::function<void(const QString& error)> done);

  StateWriter* const writer_;
  const QString folder_;
  QString trace_, contents_;
  int64_t tokens_ = 0;
  QJsonObject view_;
  Changes runs_, notes_, tunings_;
  QStringList shown_;  // ids of the runs on show
  bool told_elsewhere_ = false, told_of_tuning_ = false, told_hidden_ = false;
};

}  // namespace headscope::ui
