// SPDX-License-Identifier: Apache-2.0
// What the window keeps of each trace: its measured runs in a file beside it (NAME.h5.headscope.json), and how it was
// looked at in the user's settings folder. Runs of a trace whose folder takes no files go to the settings folder too.
//
// Several windows may show one trace: each writes what it adds or drops, and every run has a number of its own. A run
// knows the contents of its trace, so that a trace recorded anew under the same name does not show the runs of the one
// before. The files are untrusted.
#pragma once

#include <QJsonObject>
#include <QObject>
#include <QString>
#include <QStringList>
#include <vector>

#include "state_writer.h"

namespace headscope::ui {

class TraceKeeper : public QObject {
  Q_OBJECT

 public:
  // `settings_folder`: where session.json lies. `writer` outlives the keeper.
  TraceKeeper(StateWriter* writer, const QString& settings_folder, QObject* parent = nullptr);

  struct Kept {
    QJsonObject view;               // as KeepView was given it last; empty: never
    std::vector<QJsonObject> runs;  // oldest first
  };
  // Another trace; `contents` names what is recorded in it. What was asked for of the one before is still written.
  Kept Open(const QString& trace_path, const QString& contents);
  void KeepView(const QJsonObject& view);
  void KeepRun(const QJsonObject& run);
  // Of the open trace, those of other windows that Open has shown among them.
  void DropRuns();
  // Runs that are in no file yet, or cannot be.
  int num_unkept() const { return static_cast<int>(added_.size()); }

  static QString FileBeside(const QString& trace_path);
  QString FileInSettings(const QString& trace_path) const;

 Q_SIGNALS:
  void RunsKept();                              // all of them
  void RunsKeptElsewhere(const QString& path);  // once a trace: its folder takes none
  void Failed(const QString& sentence);         // runs that no file takes

 private:
  void WriteRuns();

  StateWriter* const writer_;
  const QString folder_;
  QString trace_, contents_;
  QJsonObject view_;
  // Not known to be written yet: entries of the file, oldest first, and numbers of runs.
  std::vector<QJsonObject> added_;
  QStringList dropped_;
  QStringList shown_;  // numbers of the runs on show
  bool told_elsewhere_ = false;
};

}  // namespace headscope::ui
