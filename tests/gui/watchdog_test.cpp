// SPDX-License-Identifier: Apache-2.0
// The watchdog itself: an event that keeps the window's thread is a hit, and one that is short or only waits is none.
#include "watchdog.h"

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QEvent>
#include <QObject>
#include <QProcess>
#include <QProcessEnvironment>
#include <QThread>
#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "patience.h"

namespace headscope::gui_test {
namespace {

class Receiver : public QObject {
 public:
  explicit Receiver(std::function<void()> work) : work_(std::move(work)) { setObjectName(QStringLiteral("receiver")); }
  bool event(QEvent*) override {
    work_();
    return true;
  }

 private:
  const std::function<void()> work_;
};

void SendTo(const std::function<void()>& work) {
  Receiver receiver(work);
  QEvent event(QEvent::User);
  QCoreApplication::sendEvent(&receiver, &event);
}

std::vector<LongEvent> HitsOf(const std::function<void()>& work) {
  auto* const application = static_cast<WatchedApplication*>(qApp);
  application->TakeHits();
  SendTo(work);
  return application->TakeHits();
}

void Spin(double milliseconds) {
  const std::clock_t begun = std::clock();
  while (static_cast<double>(std::clock() - begun) * 1e3 / CLOCKS_PER_SEC < milliseconds) {
  }
}

TEST(WatchdogTest, AnEventThatKeepsTheThreadIsAHit) {
  const double limit = WatchedApplication::LimitHereMs();
  ASSERT_GE(limit, WatchedApplication::LimitMs());
  ASSERT_LE(limit, 20 * WatchedApplication::LimitMs()) << "nothing would be a hit";
  // The limit is found anew at the hit, and this process has other threads.
  const std::vector<LongEvent> hits = HitsOf([&] { Spin(4 * limit); });
  ASSERT_EQ(hits.size(), 1U);
  EXPECT_NE(hits[0].name.find("receiver: User"), std::string::npos) << hits[0].name;
  EXPECT_NE(hits[0].sentence.find("receiver: User kept the window's thread busy for "), std::string::npos)
      << hits[0].sentence;
}

TEST(WatchdogTest, AnEventThatWaitsIsNone) {
  EXPECT_TRUE(HitsOf([] { QThread::msleep(200); }).empty());
  EXPECT_TRUE(HitsOf([] { Spin(5); }).empty());
}

// The two cases that the next one runs in processes of their own.
TEST(DISABLED_WatchdogCases, IsAlwaysLong) {
  SendTo([] { Spin(4 * WatchedApplication::LimitHereMs()); });
}

TEST(DISABLED_WatchdogCases, IsLongOnce) {
  if (qEnvironmentVariableIsSet("HEADSCOPE_WATCHDOG_LONG_BEFORE")) return;
  SendTo([] { Spin(4 * WatchedApplication::LimitHereMs()); });
}

TEST(WatchdogTest, ACaseFailsIfItsEventIsLongInTwoRuns) {
  QProcess process;
  process.setProcessChannelMode(QProcess::MergedChannels);
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.remove(QStringLiteral("GTEST_OUTPUT"));  // this program's
  environment.remove(QStringLiteral("HEADSCOPE_WATCHDOG_LONG_BEFORE"));
  process.setProcessEnvironment(environment);
  for (const char* const name : {"IsAlwaysLong", "IsLongOnce"}) {
    SCOPED_TRACE(name);
    process.start(QCoreApplication::applicationFilePath(),
                  {QStringLiteral("--gtest_also_run_disabled_tests"),
                   QStringLiteral("--gtest_filter=DISABLED_WatchdogCases.%1").arg(QLatin1String(name))});
    ASSERT_TRUE(process.waitForFinished(60000 * Patience()));
    const QString printed = QString::fromUtf8(process.readAll());
    const bool always = name == std::string("IsAlwaysLong");
    EXPECT_EQ(process.exitCode() == 0, !always) << printed.toStdString();
    EXPECT_EQ(printed.count(QStringLiteral("run once more")), 1) << printed.toStdString();
    EXPECT_EQ(printed.count(QStringLiteral("as in the run before")), always ? 1 : 0) << printed.toStdString();
    // Both runs are of that case.
    EXPECT_EQ(printed.count(QStringLiteral("1 test from 1 test suite ran")), 2) << printed.toStdString();
  }
}

}  // namespace
}  // namespace headscope::gui_test
