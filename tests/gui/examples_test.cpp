// SPDX-License-Identifier: Apache-2.0
// The examples of the Welcome page: made when they are first asked for, by the shipped model.
#include <QDateTime>
#include <QFileInfo>
#include <QPushButton>
#include <QTest>

#include "shell_fixture.h"
#include "welcome_page.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

class ExamplesTest : public ShellTest {
 protected:
  // The button of an example, by the name of its file.
  QPushButton* ExampleButton(const QString& name) {
    window_->commands()[Command::kWelcome]->trigger();
    QCoreApplication::processEvents();
    return window_->findChild<QPushButton*>(QStringLiteral("example-") + name);
  }
  QString PathOf(const QString& name) const {
    for (const ui::Example& example : workbench_->examples()) {
      if (QFileInfo(QString::fromStdString(example.path)).completeBaseName() == name)
        return QString::fromStdString(example.path);
    }
    return {};
  }
  bool IsOpen(const QString& name) {
    return QFileInfo(QString::fromStdString(window_->store()->trace().path)).completeBaseName() == name;
  }
};

TEST_F(ExamplesTest, TheShortOneIsMadeAndOpensOnAnInductionHead) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  const QString name = QStringLiteral("induction-60"), path = PathOf(name);
  ASSERT_FALSE(path.isEmpty());
  EXPECT_EQ(workbench_->examples().size(), 3u);
  EXPECT_FALSE(QFileInfo::exists(path));
  QPushButton* const button = ExampleButton(name);
  ASSERT_NE(button, nullptr);
  QTest::mouseClick(button, Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return IsOpen(name); }, 60000));
  EXPECT_TRUE(QFileInfo::exists(path));
  EXPECT_EQ(window_->store()->trace().num_tokens, 60);
  ASSERT_TRUE(WaitForStatistics());
  // Of all heads the one that reads most what followed its token before, which is what the map is about.
  const auto shown = window_->store()->selected();
  ASSERT_TRUE(shown.has_value());
  double most = 0;
  for (const analysis::HeadStatistics& head : window_->store()->AllStatistics())
    most = std::max(most, analysis::MetricValue(head, "induction"));
  EXPECT_EQ(analysis::MetricValue(*window_->store()->Find(*shown), "induction"), most);
  EXPECT_GT(most, 0.5);
  ASSERT_TRUE(WaitForCanvas());

  // A second time it is there, and is not made again.
  const QDateTime made = QFileInfo(path).lastModified();
  window_->OpenPath(trace_path());
  ASSERT_TRUE(WaitFor([&] { return !IsOpen(name); }));
  QTest::mouseClick(ExampleButton(name), Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return IsOpen(name); }));
  EXPECT_EQ(QFileInfo(path).lastModified(), made);
}

TEST_F(ExamplesTest, OneThatIsCancelledIsNotThere) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForStatistics());
  const QString name = QStringLiteral("passkey-16384"), path = PathOf(name);
  QPushButton* const button = ExampleButton(name);
  ASSERT_NE(button, nullptr);
  EXPECT_TRUE(button->text().contains(QStringLiteral("330 MB"))) << button->text().toStdString();
  QTest::mouseClick(button, Qt::LeftButton);
  QTest::qWait(1500);
  window_->commands()[Command::kCancelWork]->trigger();
  ASSERT_TRUE(WaitFor(
      [&] {
        for (int row = 0; row < window_->state()->log.rowCount(); ++row) {
          if (window_->state()->log.AsText({row}).contains(QStringLiteral("The example was not made."))) return true;
        }
        return false;
      },
      60000));
  EXPECT_FALSE(QFileInfo::exists(path));
  EXPECT_TRUE(IsOpen(QStringLiteral("small"))) << "what was open stays open";
}

}  // namespace
}  // namespace headscope::gui_test
