// SPDX-License-Identifier: Apache-2.0
// Thresholds of the classes and the alarm in the real window: heads change their class at once, the change is undone,
// kept by the session, and the copied command gives the same classes. And what few bits do to the open head.
#include <QAction>
#include <QClipboard>
#include <QComboBox>
#include <QDialogButtonBox>
#include <QDoubleSpinBox>
#include <QJsonArray>
#include <QPushButton>
#include <QTableWidget>
#include <map>
#include <string>

#include "analysis/types/metric_scale.h"
#include "class_dialog.h"
#include "reach_fixture.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

class ClassWindowTest : public ReachTest {
 protected:
  std::map<HeadId, std::string> Classes() {
    std::map<HeadId, std::string> classes;
    for (const analysis::HeadStatistics& head : window_->store()->AllStatistics())
      classes[head.id] = analysis::HeadClassName(head.head_class);
    return classes;
  }
  void OpenDialog() {
    window_->commands()[Command::kClasses]->trigger();
    auto* dialog = Find<ui::ClassDialog>("classDialog");
    ASSERT_TRUE(WaitFor([&] { return dialog->isVisible(); }));
  }
};

TEST_F(ClassWindowTest, AThresholdClassesHeadsAtOnceAndIsUndoneAndKept) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_TRUE(WaitForStatistics());
  const auto usual = Classes();
  ASSERT_EQ(usual.at({0, 1}), "local") << "it sees the token before";
  ASSERT_NO_FATAL_FAILURE(OpenDialog());
  // Nothing is retrieval-like, vertical-slash, sink or local any more.
  for (const char* name : {"threshold-retrieval_peak", "threshold-far_mass", "threshold-near_mass"})
    Find<QDoubleSpinBox>(name)->setValue(1);
  Find<QDoubleSpinBox>("threshold-dense_sparsity")->setValue(0.5);
  const auto strict = Classes();
  EXPECT_NE(strict, usual);
  // The same as the command that is copied.
  Find<QPushButton>("copyClasses")->click();
  const QString command = QApplication::clipboard()->text();
  EXPECT_TRUE(command.contains(QStringLiteral("--class-threshold"))) << command.toStdString();
  std::map<HeadId, std::string> told;
  for (const QJsonValue& value :
       RunInShell(command, File(QStringLiteral("heads.json")))[QStringLiteral("heads")].toArray()) {
    const QJsonObject head = value.toObject();
    told[{head[QStringLiteral("layer")].toInt(), head[QStringLiteral("head")].toInt()}] =
        head[QStringLiteral("class")].toString().toStdString();
  }
  EXPECT_EQ(told, strict);
  // A second start has them, from what was kept of the statistics.
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitForStatistics());
  EXPECT_EQ(Classes(), strict);
  ASSERT_NO_FATAL_FAILURE(OpenDialog());
  auto* near = Find<QDoubleSpinBox>("threshold-near_mass");
  EXPECT_EQ(near->value(), 1);
  near->setValue(0.25);
  EXPECT_EQ(window_->state()->classes.values()[5], 0.25);
  window_->commands()[Command::kUndo]->trigger();
  EXPECT_EQ(near->value(), 1);
  auto* buttons = Find<QDialogButtonBox>("classButtons");
  buttons->button(QDialogButtonBox::RestoreDefaults)->click();
  EXPECT_EQ(Classes(), usual);
  EXPECT_FALSE(buttons->button(QDialogButtonBox::RestoreDefaults)->isEnabled());
}

TEST_F(ClassWindowTest, ThresholdsGoToAFileAndComeBack) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(OpenDialog());
  auto* far = Find<QDoubleSpinBox>("threshold-far_mass");
  far->setValue(0.375);
  const QString path = File(QStringLiteral("classes.json"));
  AnswerFileDialog(path);
  Find<QPushButton>("saveClasses")->click();
  ASSERT_TRUE(QFile::exists(path));
  window_->state()->classes.Reset();
  EXPECT_NE(far->value(), 0.375);
  AnswerFileDialog(path);
  Find<QPushButton>("loadClasses")->click();
  EXPECT_EQ(far->value(), 0.375);
  QFile file(path);
  ASSERT_TRUE(file.open(QIODevice::WriteOnly));
  file.write("{}");
  file.close();
  AnswerFileDialog(path);
  Find<QPushButton>("loadClasses")->click();
  EXPECT_TRUE(Find<QLabel>("classError")->text().contains(QStringLiteral("classes.json")));
  EXPECT_EQ(far->value(), 0.375);
}

TEST_F(ClassWindowTest, TheAlarmIsSeenInTheMatrix) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_TRUE(WaitForStatistics());
  window_->store()->SetMetric("largest_logit");
  const auto& alarm = analysis::kAlarmColor;
  const QColor red(alarm.red, alarm.green, alarm.blue);
  const auto colour = [&] { return Find<ui::HeadMatrix>("headMatrix")->CellColor({0, 2}).value_or(QColor()); };
  ASSERT_NO_FATAL_FAILURE(OpenDialog());
  auto* box = Find<QDoubleSpinBox>("alarm-largest_logit");
  EXPECT_EQ(box->value(), 100);
  box->setValue(0.1);
  EXPECT_EQ(colour(), red);
  box->setValue(box->minimum());
  EXPECT_EQ(box->text(), QStringLiteral("no alarm"));
  EXPECT_NE(colour(), red);
}

TEST_F(ClassWindowTest, TheQuantisedHeadHasTheNumbersOfTheCopiedCommand) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->ActionNamed(QStringLiteral("go-quantiseDock"))->trigger();
  Find<QComboBox>("quantiseScale")->setCurrentText(QStringLiteral("head"));
  Find<QComboBox>("quantiseHadamard")->setCurrentIndex(1);
  Find<QPushButton>("quantiseStart")->click();
  const ui::QuantiseStudy& study = window_->state()->quantise;
  ASSERT_TRUE(WaitFor([&] { return !study.working() && !study.outputs().empty(); })) << study.error().toStdString();
  EXPECT_EQ(Find<QTableWidget>("quantiseTable")->rowCount(), 4) << "a line for each format";
  Find<QPushButton>("quantiseCommand")->click();
  const QJsonArray told =
      RunInShell(QApplication::clipboard()->text(), File(QStringLiteral("bits.json")))[QStringLiteral("results")]
          .toArray();
  ASSERT_EQ(static_cast<size_t>(told.size()), study.outputs().size());
  for (qsizetype i = 0; i < told.size(); ++i) {
    const QJsonObject one = told[i].toObject();
    const ui::QuantisedOutput& output = study.outputs()[static_cast<size_t>(i)];
    EXPECT_EQ(one[QStringLiteral("format")].toString().toStdString(), output.format);
    EXPECT_NEAR(one[QStringLiteral("relative_error")].toDouble(), output.relative_error, 1e-9);
  }
  // The method under trial beside it, once it is measured.
  auto* says = Find<QLabel>("quantiseSays");
  EXPECT_TRUE(says->text().contains(QStringLiteral("Ctrl+R"))) << says->text().toStdString();
  Use("streaming-llm", "n_sink=4,n_local=16,n_dilated=0");
  ASSERT_TRUE(Finish(Command::kRun));
  EXPECT_TRUE(says->text().contains(QStringLiteral("relative error"))) << says->text().toStdString();
  window_->store()->Select({1, 1});
  EXPECT_EQ(Find<QTableWidget>("quantiseTable")->rowCount(), 0) << "those were of the head before";
}

}  // namespace
}  // namespace headscope::gui_test
