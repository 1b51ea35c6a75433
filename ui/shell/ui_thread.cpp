// SPDX-License-Identifier: Apache-2.0
#include "ui_thread.h"

#include <QCoreApplication>
#include <QEvent>
#include <utility>

namespace headscope::ui {
namespace {

// The one kind of event that anybody posts to this object.
const QEvent::Type kBell = static_cast<QEvent::Type>(QEvent::registerEventType());

}  // namespace

void UiThread::Post(std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(function));
  QCoreApplication::postEvent(this, new QEvent(kBell));
}

bool UiThread::event(QEvent* event) {
  std::function<void()> function;
  {
    const std::lock_guard lock(mutex_);  // also before the event itself is looked at: another thread made it
    if (event->type() == kBell) {
      function = std::move(waiting_.front());
      waiting_.pop_front();
    }
  }
  if (!function) return QObject::event(event);
  function();
  return true;
}

}  // namespace headscope::ui
