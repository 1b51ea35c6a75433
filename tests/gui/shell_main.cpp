// SPDX-License-Identifier: Apache-2.0
// Runs the tests of the window: each CTest entry starts this program for one case. Listing the cases needs no display.
#include <gtest/gtest.h>

#include <QLocale>
#include <QSurfaceFormat>
#include <string>
#include <vector>

#include "monkey.h"
#include "visible_focus.h"
#include "watchdog.h"

namespace {

int RunWithWindow(int argc, char** argv) {
  headscope::gui_test::WatchedApplication application(argc, argv);
  auto* const watchdog = new headscope::gui_test::WatchdogListener(&application);
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  listeners.Append(watchdog);
  QApplication::setStyle(headscope::ui::MakeApplicationStyle());
  const int result = RUN_ALL_TESTS();
  delete listeners.Release(watchdog);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  ::testing::InitGoogleTest(&argc, argv);
  if (::testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  headscope::gui_test::ReadMonkeySeconds(&argc, argv);
  qputenv("QT_QPA_PLATFORM", "xcb");  // the display of the tests, whatever the session has
  QCoreApplication::setAttribute(Qt::AA_ShareOpenGLContexts);
  QCoreApplication::setAttribute(Qt::AA_DontUseNativeDialogs);
  QSurfaceFormat format;
  format.setVersion(3, 3);
  format.setProfile(QSurfaceFormat::CoreProfile);
  format.setAlphaBufferSize(8);
  QSurfaceFormat::setDefaultFormat(format);
  QLocale::setDefault(QLocale::c());
  return headscope::gui_test::WatchdogListener::EndOrRunAgain(RunWithWindow(argc, argv), arguments);
}
