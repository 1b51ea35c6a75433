// SPDX-License-Identifier: Apache-2.0
// What a pane computes comes out of a terminal, too: its copied command gives the same numbers.
#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QFile>
#include <QJsonArray>
#include <QJsonObject>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "reach_fixture.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

class CopiedCommandTest : public ReachTest {
 protected:
  QString Copied(Command command) {
    EXPECT_TRUE(window_->commands()[command]->isEnabled());
    window_->commands()[command]->trigger();
    return QApplication::clipboard()->text();
  }
  // Of each query, as --save-rows writes it for the method.
  std::vector<double> Printed(const QString& path, const QString& method) {
    QFile file(path);
    EXPECT_TRUE(file.open(QIODevice::ReadOnly));
    std::vector<double> masses;
    for (const QString& line : QString::fromUtf8(file.readAll()).split(u'\n', Qt::SkipEmptyParts)) {
      if (line.section(u',', 2, 2) == method) masses.push_back(line.section(u',', -1).toDouble());
    }
    return masses;
  }
};

// Kept mass and Mass by query had pictures, and no command.
TEST_F(CopiedCommandTest, KeptMassIsThatOfEveryQuery) {
  ASSERT_NO_FATAL_FAILURE(Open({1, 3}));
  for (const auto& [method, parameters] :
       {std::pair{"sample-attention", "alpha_c=0.8,alpha_s=0.8"}, std::pair{"quest", "budget=64"}}) {
    SCOPED_TRACE(method);
    ASSERT_NO_FATAL_FAILURE(Use(method, parameters));
    for (const bool alone : {false, true}) {
      canvas_->RestoreViewState({{"measures_alone", alone}});
      ASSERT_TRUE(WaitForCanvas());
      ASSERT_TRUE(WaitFor([&] { return window_->state()->trial.mask().has_value(); }));
      const std::vector<float> shown = window_->state()->trial.mask()->kept_mass;
      ASSERT_FALSE(shown.empty());
      QString command = Copied(Command::kCopyMassCommand);
      const QString name = QStringLiteral("kept-mass-1-3.csv");
      ASSERT_TRUE(command.endsWith(name)) << command.toStdString();
      const QString path = File(QLatin1String(method) + (alone ? "-alone-" : "-") + name);
      RunInShell(command.replace(name, path), path + QStringLiteral(".json"));
      const std::vector<double> printed = Printed(path, QLatin1String(method));
      ASSERT_EQ(printed.size(), shown.size());
      for (size_t row = 0; row < shown.size(); ++row)
        ASSERT_NEAR(printed[row], static_cast<double>(shown[row]), 1e-5) << row;
    }
  }
}

TEST_F(CopiedCommandTest, ATradeOffIsAllRunsOfItsHead) {
  ASSERT_NO_FATAL_FAILURE(Open({1, 3}));
  EXPECT_FALSE(window_->commands()[Command::kCopyTradeOffCommand]->isEnabled());
  for (const char* parameters : {"n_sink=4,n_local=16", "n_sink=4,n_local=128"}) {
    ASSERT_NO_FATAL_FAILURE(Use("a-shape", parameters));
    ASSERT_TRUE(Finish(Command::kRun));
  }
  window_->store()->Select({0, 2});  // whose run is no point of it
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(Finish(Command::kRun));
  window_->store()->Select({1, 3});
  ASSERT_TRUE(WaitForCanvas());
  const QJsonObject json = RunInShell(Copied(Command::kCopyTradeOffCommand), File(QStringLiteral("copied.json")));
  const auto point = [](double kept, double mass) {
    return std::pair(std::lround(kept * 1e6), std::lround(mass * 1e6));
  };
  std::set<std::pair<long, long>> shown, printed;
  for (const analysis::MethodResult& run : window_->state()->runs.runs()) {
    if (run.head == HeadId{1, 3} && run.method == "a-shape") shown.insert(point(run.kept_fraction, run.cra_mean));
  }
  for (const QJsonValue result : json[QStringLiteral("results")].toArray()) {
    EXPECT_EQ(result[QStringLiteral("layer")].toInt(), 1);
    EXPECT_EQ(result[QStringLiteral("head")].toInt(), 3);
    if (result[QStringLiteral("method")] == QStringLiteral("a-shape"))
      printed.insert(
          point(result[QStringLiteral("kept_fraction")].toDouble(), result[QStringLiteral("cra_mean")].toDouble()));
  }
  EXPECT_EQ(shown.size(), 2U);
  EXPECT_EQ(printed, shown);
}

}  // namespace
}  // namespace headscope::gui_test
