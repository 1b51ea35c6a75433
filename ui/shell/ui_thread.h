// SPDX-License-Identifier: Apache-2.0
// Runs functions on the thread of the window, from any thread, in the order of the calls.
//
// The functions wait in a list of its own and Qt's event is only the bell. So all that one thread leaves to another
// goes through a mutex that ThreadSanitizer sees; it does not see Qt's queue of events, which is not instrumented.
#pragma once

#include <QObject>
#include <deque>
#include <functional>
#include <mutex>

namespace headscope::ui {

// Lives on the window's thread and outlives all who post. Functions that still wait when it goes are not run.
class UiThread : public QObject {
 public:
  void Post(std::function<void()> function);

 protected:
  bool event(QEvent* event) override;

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace headscope::ui
