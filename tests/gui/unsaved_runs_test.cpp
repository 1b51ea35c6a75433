// SPDX-License-Identifier: Apache-2.0
// Runs cost minutes to measure: where neither the trace's folder nor the settings take a file of them, nothing drops
// them without a question.
#include <QAction>
#include <QDir>
#include <QFile>
#include <QLabel>
#include <QTableView>
#include <QTimer>

#include "set_repeats.h"
#include "shell_fixture.h"
#include "trace_keeper.h"
#include "watchdog.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

class UnsavedRunsTest : public ShellTest {
 protected:
  UnsavedRunsTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  // A window with one measured run, and another trace to open.
  void Measure() {
    // A folder where the one file would be, a file where the folder of the other would be.
    ASSERT_TRUE(QDir().mkpath(ui::TraceKeeper::FileBeside(trace_path())));
    QFile in_the_way(File(QStringLiteral("traces")));
    ASSERT_TRUE(in_the_way.open(QIODevice::WriteOnly));
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForStatistics());
    ASSERT_TRUE(WaitForCanvas());
    SetRepeats(window_->canvas(), 1);
    Press(Qt::Key_F5);
    ASSERT_TRUE(WaitFor([&] { return NumRuns() == 2; }));
    ASSERT_TRUE(QFile::copy(trace_path(), other_));
  }
  int NumRuns() { return Find<QTableView>("runsTable")->model()->rowCount(); }
  QString Shown() const { return QString::fromStdString(window_->store()->trace().path); }
  void ChooseOther() {
    AnswerFileDialog(other_);
    Press(Qt::Key_O, Qt::ControlModifier);
  }

  const QString other_ = File(QStringLiteral("other.h5"));
};

TEST_F(UnsavedRunsTest, OpeningAnotherTraceAsksAndCancelIsTheDefault) {
  ASSERT_NO_FATAL_FAILURE(Measure());
  AnswerQuestion(QStringLiteral("Cancel"));
  ChooseOther();
  ASSERT_EQ(questions_.size(), 1U);
  EXPECT_EQ(questions_[0].default_button, QStringLiteral("Cancel"));
  EXPECT_TRUE(questions_[0].text.contains(QStringLiteral("1 unsaved run"))) << questions_[0].text.toStdString();
  QTest::qWait(200);
  EXPECT_EQ(Shown(), trace_path());
  EXPECT_EQ(NumRuns(), 2);

  AnswerQuestion(QStringLiteral("Discard"));
  ChooseOther();
  ASSERT_TRUE(WaitFor([&] { return Shown() == other_; }));
  EXPECT_EQ(NumRuns(), 0);
}

TEST_F(UnsavedRunsTest, SavingThemOpensTheOtherTraceAndTheyAreInTheFile) {
  ASSERT_NO_FATAL_FAILURE(Measure());
  const QString saved = File(QStringLiteral("runs.h5"));
  // The dialog to open, the question, the dialog to save.
  AnswerFileDialog(other_);
  AnswerQuestion(QStringLiteral("Save…"));
  QTimer::singleShot(0, window_.get(), [&] {
    // Only after the first of the two dialogs is gone, or it would be answered with this path.
    auto* wait = new QTimer(window_.get());
    QObject::connect(wait, &QTimer::timeout, wait, [this, wait, saved] {
      if (questions_.empty()) return;
      wait->deleteLater();
      AnswerFileDialog(saved);
    });
    wait->start(20);
  });
  Press(Qt::Key_O, Qt::ControlModifier);
  ASSERT_TRUE(WaitFor([&] { return Shown() == other_; })) << Find<QLabel>("noticeText")->text().toStdString();
  QFile file(saved);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  EXPECT_TRUE(file.read(4).startsWith("\x89HDF"));
  EXPECT_EQ(NumRuns(), 0);
  // One event makes three of Qt's dialogs, which a slow processor takes longer for than an event may; nobody has to
  // wait for them at a time.
  ExpectOnlyHitsOf("QAction open: Shortcut");
}

TEST_F(UnsavedRunsTest, QuittingAsksUntilTheyAreSaved) {
  ASSERT_NO_FATAL_FAILURE(Measure());
  AnswerQuestion(QStringLiteral("Cancel"));
  Press(Qt::Key_Q, Qt::ControlModifier);
  ASSERT_EQ(questions_.size(), 1U);
  EXPECT_EQ(questions_[0].default_button, QStringLiteral("Cancel"));
  EXPECT_TRUE(window_->isVisible());

  // A file that cannot be written saves nothing: the window stays, and says why.
  AnswerFileDialog(File(QStringLiteral("missing folder/runs.csv")));
  window_->commands()[Command::kExportRuns]->trigger();
  AnswerQuestion(QStringLiteral("Cancel"));
  Press(Qt::Key_Q, Qt::ControlModifier);
  EXPECT_EQ(questions_.size(), 2U);
  EXPECT_TRUE(window_->isVisible());

  AnswerFileDialog(File(QStringLiteral("runs.csv")));
  window_->commands()[Command::kExportRuns]->trigger();
  ASSERT_TRUE(QFile::exists(File(QStringLiteral("runs.csv")))) << Find<QLabel>("noticeText")->text().toStdString();
  Press(Qt::Key_Q, Qt::ControlModifier);
  EXPECT_EQ(questions_.size(), 2U) << "saved runs are not asked about";
  EXPECT_FALSE(window_->isVisible());
}

}  // namespace
}  // namespace headscope::gui_test
