// SPDX-License-Identifier: Apache-2.0
// Sees to it that the window's thread is never busy for long with one event: a case during which it was fails.
//
// What counts is processor time of that thread, so that a busy machine fails nothing. HEADSCOPE_WATCHDOG_MS sets the
// limit for machines that are slower; the default is 50 ms, times HEADSCOPE_TEST_PATIENCE.
#pragma once

#include <gtest/gtest.h>

#include <QApplication>
#include <string>
#include <vector>

namespace headscope::gui_test {

// Notes events that took longer than the limit. Nested event loops are not their event's fault: they are watched by
// themselves.
class WatchedApplication : public QApplication {
 public:
  using QApplication::QApplication;
  bool notify(QObject* receiver, QEvent* event) override;

  // Since the last call: a sentence each.
  std::vector<std::string> TakeHits();
  static double LimitMs();

 private:
  double nested_ms_ = 0;  // of the present event: what events inside it took
  std::vector<std::string> hits_;
};

// Of a case in which an event may take longer than the limit, the one whose sentence begins with `event`: fails the
// case for every other one so far.
void ExpectOnlyHitsOf(const std::string& event);

// Fails the case that an event of was too long.
class WatchdogListener : public ::testing::EmptyTestEventListener {
 public:
  explicit WatchdogListener(WatchedApplication* application) : application_(application) {}
  void OnTestStart(const ::testing::TestInfo&) override { application_->TakeHits(); }
  void OnTestEnd(const ::testing::TestInfo&) override;

 private:
  WatchedApplication* const application_;
};

}  // namespace headscope::gui_test
