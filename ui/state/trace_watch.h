// SPDX-License-Identifier: Apache-2.0
// Whether the open trace grows: a capture, of this window or of any other program, may still be writing it. Its files
// are looked at once in a while, so nobody has to tell; a trace that is complete is not looked at.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QStringList>
#include <QTimer>
#include <vector>

#include "ui/workbench.h"

namespace headscope::ui {

// Whether `now` is the recording `before` with more of it: the same model, prompt and heads, and every token and row of
// `before` at its place. What a person wrote down about `before` then holds of `now`.
bool HasGrownFrom(const TraceSummary& before, const TraceSummary& now);

class TraceWatch : public QObject {
  Q_OBJECT

 public:
  explicit TraceWatch(QObject* parent = nullptr);

  // A trace, this one or another, is about to be read, in these files; one of the two others follows. What is written
  // in between counts as news. The trace on show is watched meanwhile, and tells nothing: it may be gone in a moment.
  void Opening(const QStringList& files);
  void Opened(const TraceSummary& trace);
  void NotOpened();
  bool is_opening() const { return !opening_files_.isEmpty(); }
  bool is_opening_another() const { return is_opening() && opening_files_ != files_; }

  // Whoever writes the trace is known, and says itself when it is done and by what name: it counts as written until
  // then, however long a pass takes.
  void SetWriterKnown(bool known);

  // It was written to a moment ago, or its writer is known.
  bool is_written() const { return is_written_; }
  // A file of it is under no name that a capture gives it.
  bool is_gone() const { return is_gone_; }
  qint64 QuietSeconds() const;  // since it was written to last

  // Opening a trace costs about as much as looking at its first map: it is worth it when there is so much more of it,
  // or, when the writer rests, a little more; or anything, when it has rested for twice as long.
  static constexpr double kWorthwhileGrowth = 1.3, kGrowthAtRest = 1.05;
  // A pass of a long prompt takes minutes: the writer rests when nothing has come for twice as long as it ever took
  // from one piece to the next.
  static constexpr qint64 kLeastRestMs = 2500, kMostRestMs = 10 * 60 * 1000;
  static constexpr int kRestIntervals = 2;
  static constexpr int kLookMs = 500, kLookAtRestMs = 5000;
  void Look(qint64 now_ms);  // as the timer does; of a clock that never goes back
  void PassTime(qint64 ms);  // looks as the timer would after so long, for whoever will not wait
  int look_ms() const { return timer_.isActive() ? timer_.interval() : 0; }  // 0: nobody looks

 Q_SIGNALS:
  void Grown();                       // by enough, or for the last time; once, until it is opened anew
  void Renamed(const QString& path);  // to the name that it is to have; once, as that
  void Looked();                      // whatever a person is told of it may be another thing

 private:
  struct FileState {
    qint64 size = -1, modified = 0;  // bytes, nanoseconds; no size: there is no such file
    quint64 device = 0, inode = 0;
    friend bool operator==(const FileState&, const FileState&) = default;
    bool IsThere() const { return size >= 0; }
    bool IsSameFile(const FileState& other) const {
      return IsThere() && device == other.device && inode == other.inode;
    }
  };
  using FileStates = std::vector<FileState>;  // of all files of a trace
  static FileStates StatesOf(const QStringList& files);
  static bool AreSameFiles(const FileStates& some, const FileStates& others);
  static qint64 Bytes(const FileStates& files);
  void Missing(const FileStates& now);

  QStringList files_, opening_files_;  // absolute paths; of several files in their order
  FileStates opened_, last_, opening_;
  QElapsedTimer clock_;
  qint64 passed_ms_ = 0;    // ahead of the clock
  qint64 written_ms_ = -1;  // when a change was seen last; before one: when it was looked at first; -1: the next look
  qint64 longest_interval_ms_ = 0;  // between two changes
  bool has_changed_ = false;        // since this path was opened first
  bool cut_short_ = false;          // reading it again was given up for a trace that may not open
  bool is_half_renamed_ = false;    // as it was looked at last
  bool told_ = false, is_written_ = false, is_gone_ = false, writer_known_ = false;
  QTimer timer_;
};

}  // namespace headscope::ui
