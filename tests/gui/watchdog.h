// SPDX-License-Identifier: Apache-2.0
// Sees to it that the window's thread is never busy for long with one event: a case during which it was fails.
//
// What counts is processor time of that thread, so that a busy machine fails nothing. The limit is 50 ms, as many times
// more as a yardstick takes on a slow core, or HEADSCOPE_TEST_PATIENCE times where that is more; HEADSCOPE_WATCHDOG_MS
// sets it. A virtual machine that takes its core away for a while has that time counted as well: a case with an event
// that was too long is run once more in a process of its own, and fails if the same event is too long again. An event
// that is slow by itself is slow both times, in a case that does the same both times.
#pragma once

#include <gtest/gtest.h>

#include <QApplication>
#include <set>
#include <string>
#include <vector>

namespace headscope::gui_test {

// An event that took longer than the limit: whose, of which kind, and the sentence about it.
struct LongEvent {
  std::string name;
  std::string sentence;
};

// Notes events that took longer than the limit. Nested event loops are not their event's fault: they are watched by
// themselves.
class WatchedApplication : public QApplication {
 public:
  using QApplication::QApplication;
  bool notify(QObject* receiver, QEvent* event) override;

  // Since the last call.
  std::vector<LongEvent> TakeHits();
  // On a core that is as fast as the one that it was chosen on, and on this one as it is just now.
  static double LimitMs();
  static double LimitHereMs();

 private:
  double nested_ms_ = 0;  // of the present event: what events inside it took
  std::vector<LongEvent> hits_;
};

// Of a case in which an event may take longer than the limit, the one whose sentence begins with `event`: every other
// one so far counts as if the case had ended.
void ExpectOnlyHitsOf(const std::string& event);

// Of a long run that looks for rare events: the first one that is too long fails the case.
void DecideByOneRun();

// Fails the case that an event of was too long in this run and in the one before it.
class WatchdogListener : public ::testing::EmptyTestEventListener {
 public:
  explicit WatchdogListener(WatchedApplication* application);
  ~WatchdogListener() override;
  void OnTestStart(const ::testing::TestInfo&) override { application_->TakeHits(); }
  void OnTestEnd(const ::testing::TestInfo& test) override;

  // A first long event is printed and its case noted; one of the run before fails the case.
  void Count(const LongEvent& event);
  // Runs the noted cases, if there are any and the others passed, in place of this process, whose arguments those are;
  // returns `result` else. Nothing of the window may be left.
  static int EndOrRunAgain(int result, const std::vector<std::string>& arguments);

 private:
  WatchedApplication* const application_;
};

}  // namespace headscope::gui_test
