// SPDX-License-Identifier: Apache-2.0
// What the tests of the window's state begin with: an event loop without a display, a fake workbench, and the state on
// its trace.
#pragma once

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QDeadlineTimer>
#include <QStringList>

#include "fake_workbench.h"
#include "window_state.h"

namespace headscope::ui::testing {

class StateTest : public ::testing::Test {
 protected:
  StateTest() {
    state_.heads.SetTrace(workbench_.Summary());
    QObject::connect(&state_, &WindowState::Failed, [this](const QString& what) { failed_.append(what); });
    QObject::connect(&state_, &WindowState::Noticed, [this](const QString& what) { noticed_.append(what); });
  }
  // Every reply that waits, and what follows from it.
  void Deliver() {
    workbench_.DeliverReplies();
    QCoreApplication::processEvents();
  }
  // For so long, and what became due while this thread was kept waiting.
  void Wait(int milliseconds) {
    const QDeadlineTimer end(milliseconds);
    while (!end.hasExpired()) QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 10);
    QCoreApplication::processEvents();
  }
  // Of the method "band".
  int Window() const { return state_.trial.values().Integer("window"); }

 private:
  int argc_ = 1;
  char name_[5] = "test";
  char* argv_[2] = {name_, nullptr};
  QCoreApplication application_{argc_, argv_};

 protected:
  FakeWorkbench workbench_{128};
  WindowState state_{&workbench_};
  QStringList failed_, noticed_;  // sentences, in order
};

}  // namespace headscope::ui::testing
