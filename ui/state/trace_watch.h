// SPDX-License-Identifier: Apache-2.0
// Whether the open trace grows: a capture, of this window or of any other program, may still be writing it. Its file is
// looked at once in a while, so nobody has to tell; a trace that is complete is not looked at.
#pragma once

#include <QObject>
#include <QTimer>

#include "ui/workbench.h"

namespace headscope::ui {

class TraceWatch : public QObject {
  Q_OBJECT

 public:
  explicit TraceWatch(QObject* parent = nullptr);

  // The trace is about to be read, and has been. What is written in between counts as news.
  void Opening(const QString& path);
  void Opened(const TraceSummary& trace);

  // It was written to a moment ago.
  bool is_written() const { return is_written_; }

  // Opening a trace costs about as much as looking at its first map: it is worth it when there is so much more of it,
  // or when the writer has rested for kRestLooks looks.
  static constexpr double kWorthwhileGrowth = 1.3;
  static constexpr int kLookMs = 500, kRestLooks = 5;
  void Look();  // as the timer does

 Q_SIGNALS:
  void Grown();           // by enough, or for the last time; once, until it is opened anew
  void WrittenChanged();  // is_written

 private:
  struct FileState {
    qint64 size = -1, modified = 0;  // bytes, milliseconds; no size: there is no such file
    friend bool operator==(const FileState&, const FileState&) = default;
  };
  static FileState StateOf(const QString& path);
  void SetWritten(bool written);

  QString path_;
  FileState opened_, last_;
  int rested_ = 0;
  bool told_ = false, is_written_ = false;
  QTimer timer_;
};

}  // namespace headscope::ui
