// SPDX-License-Identifier: Apache-2.0
#include "trace_watch.h"

#include <QDateTime>
#include <QFileInfo>

namespace headscope::ui {

TraceWatch::TraceWatch(QObject* parent) : QObject(parent) {
  timer_.setInterval(kLookMs);
  connect(&timer_, &QTimer::timeout, this, &TraceWatch::Look);
}

TraceWatch::FileState TraceWatch::StateOf(const QString& path) {
  const QFileInfo file(path);
  if (!file.isFile()) return {};
  return {file.size(), file.lastModified().toMSecsSinceEpoch()};
}

void TraceWatch::Opening(const QString& path) {
  timer_.stop();
  if (path != path_) SetWritten(false);
  path_ = path;
  opened_ = StateOf(path);
}

void TraceWatch::Opened(const TraceSummary& trace) {
  const QString path = QString::fromStdString(trace.path);
  if (path_ != path) Opening(path);
  last_ = StateOf(path);
  told_ = false;
  rested_ = 0;
  if (trace.complete) {
    timer_.stop();
    SetWritten(false);
  } else {
    if (last_ != opened_) SetWritten(true);  // and of one that has grown it is known already
    timer_.start();
  }
}

void TraceWatch::SetWritten(bool written) {
  if (written == is_written_) return;
  is_written_ = written;
  Q_EMIT WrittenChanged();
}

void TraceWatch::Look() {
  const FileState now = StateOf(path_);
  if (now.size < 0) {  // renamed or removed: what is on show stays readable, and whoever did it may say where it is
    timer_.stop();
    return SetWritten(false);
  }
  rested_ = now == last_ ? rested_ + 1 : 0;
  if (now != last_) SetWritten(true);
  last_ = now;
  const bool rests = rested_ >= kRestLooks;
  if (rests) SetWritten(false);
  if (told_ || now == opened_) return;
  if (!rests && static_cast<double>(now.size) < kWorthwhileGrowth * static_cast<double>(opened_.size)) return;
  told_ = true;
  Q_EMIT Grown();
}

}  // namespace headscope::ui
