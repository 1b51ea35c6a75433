// SPDX-License-Identifier: Apache-2.0
#include "startup_watch.h"

#include <unistd.h>

#include <QApplication>
#include <QEvent>
#include <QFile>
#include <QPixmap>
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "notice_bar.h"

namespace headscope::ui {
namespace {

constexpr int kWatchEveryMs = 20;
// Work that follows other work (statistics after a trace was opened) begins within this many looks.
constexpr int kLooksAtRest = 25;

// Seconds since this process began; its start is field 22 of /proc/self/stat (proc(5)), in clock ticks after boot.
double SecondsSinceProcessStart() {
  QFile file(QStringLiteral("/proc/self/stat"));
  if (!file.open(QIODevice::ReadOnly)) return -1;
  const QByteArray text = file.readAll();
  const QList<QByteArray> fields = text.mid(text.lastIndexOf(')') + 2).split(' ');  // from field 3 on
  timespec now{};
  if (fields.size() < 20 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return -1;
  const double start = fields[19].toDouble() / static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - start;
}

void Log(const char* what) {
  std::fprintf(stderr, "headscope: %s %.2f s after the process began\n", what, SecondsSinceProcessStart());
}

}  // namespace

void StartupWatch::FromEnvironment(MainWindow* window) {
  for (const char* name : {"HEADSCOPE_LOG_STARTUP", "HEADSCOPE_COMMANDS", "HEADSCOPE_PICTURE"}) {
    if (qEnvironmentVariableIsEmpty(name)) continue;
    new StartupWatch(window);
    return;
  }
}

StartupWatch::StartupWatch(MainWindow* window)
    : QObject(window),
      window_(window),
      log_(!qEnvironmentVariableIsEmpty("HEADSCOPE_LOG_STARTUP")),
      only_log_(qEnvironmentVariable("HEADSCOPE_LOG_STARTUP") == u"only"),
      picture_(qEnvironmentVariable("HEADSCOPE_PICTURE")),
      commands_(qEnvironmentVariable("HEADSCOPE_COMMANDS").split(u',', Qt::SkipEmptyParts)) {
  window->installEventFilter(this);
  connect(&timer_, &QTimer::timeout, this, &StartupWatch::Look);
  timer_.start(kWatchEveryMs);
}

bool StartupWatch::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Paint && !window_painted_) {
    window_painted_ = true;
    if (log_) Log("window painted");
    window_->removeEventFilter(this);
  }
  return QObject::eventFilter(watched, event);
}

bool StartupWatch::IsAtRest() const {
  const QList<HeadCanvas*> maps = window_->findChildren<HeadCanvas*>();
  return std::all_of(maps.begin(), maps.end(), [](const HeadCanvas* map) { return map->IsSettled(); }) &&
         !window_->findChild<ProgressStrip*>()->IsBusy();
}

void StartupWatch::Look() {
  if (!map_painted_ && window_->canvas()->HasHead() && window_->canvas()->IsSettled()) {
    map_painted_ = true;
    if (log_) Log("map and mask painted");
    if (only_log_) {
      timer_.stop();
      window_->close();
      return;
    }
  }
  looks_at_rest_ = window_painted_ && IsAtRest() ? looks_at_rest_ + 1 : 0;
  if (looks_at_rest_ < kLooksAtRest) return;
  looks_at_rest_ = 0;
  if (!commands_.isEmpty()) {
    const QString id = commands_.takeFirst();
    if (QAction* action = window_->findChild<QAction*>(id)) {
      action->trigger();
    } else {
      std::fprintf(stderr, "headscope: HEADSCOPE_COMMANDS names %s, which is not a command of the window\n",
                   qPrintable(id));
    }
    return;
  }
  // A notice says what has just happened and goes; the map under it gets its room back before the picture.
  auto* notice = window_->findChild<NoticeBar*>();
  if (!picture_.isEmpty() && notice->isVisible()) return notice->Dismiss();
  timer_.stop();
  if (!picture_.isEmpty()) TakePicture();
}

void StartupWatch::TakePicture() {
  // Nobody types into a picture: no frame points at what has the keyboard (visible_focus.h).
  if (QWidget* const focused = window_->focusWidget()) focused->clearFocus();
  if (window_->grab().save(picture_)) {
    window_->ForgetRuns();
    window_->close();
    return;
  }
  std::fprintf(
      stderr,
      "headscope: the picture cannot be written to HEADSCOPE_PICTURE=%s; choose a .png file in a folder that exists\n",
      qPrintable(picture_));
  QApplication::exit(1);
}

}  // namespace headscope::ui
