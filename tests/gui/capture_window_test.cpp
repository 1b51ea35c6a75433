// SPDX-License-Identifier: Apache-2.0
// File > Capture in the real window: a real model runs, in sight of the dialog and behind it.
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QProcess>
#include <QProgressBar>
#include <QSpinBox>
#include <QTableView>
#include <QToolButton>

#include "command_line.h"
#include "set_repeats.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

class CaptureTest : public ShellTest {
 protected:
  // Fills the dialog for a task of the shipped model, up to the press on Start.
  void Prepare(const QString& output, int length) {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
    QTest::keyClick(window_.get(), Qt::Key_N, Qt::ControlModifier);
    dialog_ = Find<ui::CaptureDialog>("captureDialog");
    dialog_->SetModelDir(QStringLiteral(HEADSCOPE_SOURCE_DIR "/data/reference_model"));
    Find<QSpinBox>("captureLength")->setValue(length);
    Find<QLineEdit>("captureOutput")->setText(output);
    ASSERT_TRUE(WaitFor([&] { return Find<QPushButton>("captureStart")->isEnabled(); }))
        << Find<QLabel>("captureProblem")->text().toStdString();
  }
  void Begin(const QString& output, int length) {
    ASSERT_NO_FATAL_FAILURE(Prepare(output, length));
    QTest::mouseClick(Find<QPushButton>("captureStart"), Qt::LeftButton);
    ASSERT_TRUE(dialog_->IsCapturing());
  }
  QString Notice() { return Find<QLabel>("noticeText")->text(); }
  bool OffersToOpen() { return Find<QPushButton>("noticeAction")->isVisible(); }

  ui::CaptureDialog* dialog_ = nullptr;
};

TEST_F(CaptureTest, DialogSaysWhyItCannotStart) {
  ASSERT_NO_FATAL_FAILURE(Prepare(File(QStringLiteral("captured.h5")), 512));
  auto* start = Find<QPushButton>("captureStart");
  auto* problem = Find<QLabel>("captureProblem");
  EXPECT_TRUE(problem->text().isEmpty());
  // Counted layer by layer, and what the model and the recorder hold.
  auto* estimate = Find<QLabel>("captureEstimate");
  ASSERT_TRUE(WaitFor([&] { return estimate->text().contains(QStringLiteral("of memory")); }))
      << estimate->text().toStdString();
  EXPECT_TRUE(estimate->text().startsWith(QStringLiteral("512 prompt tokens, 10.2 MiB, about ")))
      << estimate->text().toStdString();
  auto* layers = Find<QLineEdit>("captureLayers");
  QTest::keyClicks(layers, QStringLiteral("99"));
  EXPECT_FALSE(start->isEnabled());
  EXPECT_TRUE(problem->text().startsWith(QStringLiteral("Layers:")) &&
              problem->text().contains(QStringLiteral("below 10")))
      << problem->text().toStdString();
  layers->clear();
  EXPECT_TRUE(start->isEnabled());

  // The shipped model has 8 query heads over 4 KV heads.
  auto* heads = Find<QLineEdit>("captureHeads");
  QTest::keyClicks(heads, QStringLiteral("5"));
  EXPECT_EQ(dialog_->Settings().heads, "5");
  EXPECT_TRUE(start->isEnabled());
  Find<QComboBox>("captureHeadsKind")->setCurrentIndex(1);
  EXPECT_FALSE(start->isEnabled()) << "there is no KV head 5";
  heads->setText(QStringLiteral("3"));
  EXPECT_TRUE(start->isEnabled()) << problem->text().toStdString();
  EXPECT_EQ(dialog_->Settings().kv_heads, "3");
  EXPECT_EQ(dialog_->Settings().heads, "");
  heads->clear();

  // A GPU is offered where the driver lists one.
  auto* device = Find<QComboBox>("captureDevice");
  EXPECT_EQ(device->itemText(0), QStringLiteral("cpu"));
  const QDir driver(QStringLiteral("/proc/driver/nvidia/gpus"));
  if (driver.entryList(QDir::Dirs | QDir::NoDotAndDotDot).isEmpty()) {
    EXPECT_EQ(device->count(), 2) << device->itemText(1).toStdString() << " is offered, and no GPU is there";
  }
  EXPECT_EQ(device->itemText(device->count() - 1), QStringLiteral("auto"));
  device->setCurrentIndex(device->count() - 1);
  auto* needs = Find<QLabel>("captureEstimate");
  EXPECT_TRUE(WaitFor([&] { return needs->text().contains(QStringLiteral("layers 0-9 on c")); }, 20000))
      << needs->text().toStdString();
  device->setCurrentIndex(0);
}

TEST_F(CaptureTest, FinishedCaptureIsOfferedAndWhatIsOnShowStays) {
  const QString output = File(QStringLiteral("captured.h5"));
  ASSERT_NO_FATAL_FAILURE(Begin(output, 512));
  SetRepeats(window_->canvas(), 1);
  window_->commands()[ui::Command::kRun]->trigger();
  auto* runs = Find<QTableView>("runsTable");
  ASSERT_TRUE(WaitFor([&] { return runs->model()->rowCount() == 2; }, 90000));
  ASSERT_TRUE(WaitFor([&] { return !dialog_->IsCapturing(); }, 90000));
  EXPECT_EQ(runs->model()->rowCount(), 2) << "the runs of the trace on show";
  EXPECT_EQ(window_->store()->trace().num_layers, 2) << "the trace on show";
  ASSERT_TRUE(OffersToOpen()) << Find<QLabel>("captureStatus")->text().toStdString();
  EXPECT_TRUE(Notice().contains(output) && Notice().contains(QStringLiteral(" tokens, "))) << Notice().toStdString();

  // News in between does not cost the offer.
  window_->OpenPath(File(QStringLiteral("missing.h5")));
  ASSERT_TRUE(WaitFor([&] { return Notice().contains(QStringLiteral("missing.h5")); }));
  EXPECT_FALSE(OffersToOpen());
  EXPECT_EQ(runs->model()->rowCount(), 2) << "nothing was opened";
  QTest::mouseClick(Find<QToolButton>("noticeClose"), Qt::LeftButton);
  ASSERT_TRUE(OffersToOpen());

  QTest::mouseClick(Find<QPushButton>("noticeAction"), Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().num_layers == 10; })) << Notice().toStdString();
  EXPECT_EQ(questions_.size(), 0U) << "runs are kept beside their trace: nothing is lost by opening another";
  EXPECT_EQ(runs->model()->rowCount(), 0);
  EXPECT_TRUE(window_->store()->trace().complete);
  EXPECT_GT(window_->store()->trace().num_tokens, 480);
  EXPECT_LE(window_->store()->trace().num_tokens, 512);
  EXPECT_FALSE(Find<QFrame>("notice")->isVisible());
}

TEST_F(CaptureTest, CaptureBehindAClosedDialogIsSeenReopenedAndCancelled) {
  const QString output = File(QStringLiteral("cancelled.h5"));
  ASSERT_NO_FATAL_FAILURE(Begin(output, 12000));
  QTest::keyClick(dialog_, Qt::Key_Escape);
  ASSERT_FALSE(dialog_->isVisible());
  ASSERT_TRUE(dialog_->IsCapturing());
  auto* text = Find<QLabel>("progressText");
  ASSERT_TRUE(WaitFor([&] { return text->isVisible() && text->text().contains(QStringLiteral("tokens/s")); }, 60000))
      << text->text().toStdString();
  EXPECT_TRUE(text->text().contains(QStringLiteral(" left"))) << text->text().toStdString();
  QTest::mouseClick(text, Qt::LeftButton);
  EXPECT_TRUE(dialog_->isVisible());
  dialog_->close();

  QTest::mouseClick(Find<QToolButton>("progressCancel"), Qt::LeftButton);
  EXPECT_TRUE(text->text().contains(QStringLiteral("Cancelling"))) << text->text().toStdString();
  ASSERT_TRUE(WaitFor([&] { return !dialog_->IsCapturing(); }, 60000));
  ASSERT_TRUE(OffersToOpen()) << Notice().toStdString();
  EXPECT_TRUE(Notice().contains(QStringLiteral("cancelled"))) << Notice().toStdString();
  // Opened without the notice's button: what was offered is then on show, and the offer goes.
  window_->OpenPath(output);
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().num_layers == 10; })) << Notice().toStdString();
  EXPECT_FALSE(Find<QFrame>("notice")->isVisible()) << Notice().toStdString();
  EXPECT_GT(window_->store()->trace().num_tokens, 0);
  EXPECT_LT(window_->store()->trace().num_tokens, 12000);
}

TEST_F(CaptureTest, WhatACaptureHasRecordedIsShownWhileItGoesOn) {
  ASSERT_NO_FATAL_FAILURE(Begin(File(QStringLiteral("recorded.h5")), 12000));
  dialog_->close();
  const auto offers = [&] { return Notice().startsWith(QStringLiteral("The first tokens of recorded.h5")); };
  ASSERT_TRUE(WaitFor([&] { return OffersToOpen() && offers(); }, 60000)) << Notice().toStdString();
  ASSERT_TRUE(dialog_->IsCapturing());
  QTest::mouseClick(Find<QPushButton>("noticeAction"), Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().num_layers == 10; }, 60000)) << Notice().toStdString();
  EXPECT_TRUE(dialog_->IsCapturing());
  EXPECT_FALSE(window_->store()->trace().complete);
  const int64_t at_first = window_->store()->trace().num_tokens;
  EXPECT_GT(at_first, 0);
  EXPECT_LT(at_first, 12000);
  auto* const said = Find<QLabel>("recordingLabel");
  EXPECT_TRUE(said->isVisible());
  EXPECT_TRUE(said->text().endsWith(QStringLiteral(" tokens"))) << said->text().toStdString();
  // Cancelled: what was recorded so far is what is shown.
  dialog_->Stop();
  ASSERT_TRUE(WaitFor([&] { return !dialog_->IsCapturing(); }, 60000));
  ASSERT_TRUE(WaitFor([&] { return said->text().startsWith(QStringLiteral("Incomplete")); }, 60000))
      << said->text().toStdString();
  EXPECT_GE(window_->store()->trace().num_tokens, at_first);
  EXPECT_FALSE(OffersToOpen()) << Notice().toStdString();
}

TEST_F(CaptureTest, AFolderThatComesWhileACaptureRunsIsSaidNotToBeTaken) {
  ASSERT_NO_FATAL_FAILURE(Begin(File(QStringLiteral("captured.h5")), 4000));
  const QString model = Find<QLineEdit>("captureModel")->text();
  ASSERT_TRUE(QDir().mkpath(File(QStringLiteral("another model"))));
  window_->OpenPath(File(QStringLiteral("another model")));
  EXPECT_EQ(Find<QLineEdit>("captureModel")->text(), model);
  EXPECT_TRUE(Notice().startsWith(QStringLiteral("another model was not taken over: a capture is running.")))
      << Notice().toStdString();
  dialog_->Stop();
  ASSERT_TRUE(WaitFor([&] { return !dialog_->IsCapturing(); }, 60000));
}

TEST_F(CaptureTest, TheCopiedCommandRecordsTheSame) {
  const QString output = File(QStringLiteral("by the window's dialog.h5"));
  ASSERT_NO_FATAL_FAILURE(Prepare(output, 512));
  auto* kind = Find<QComboBox>("capturePromptKind");
  kind->setCurrentIndex(kind->findText(QStringLiteral("Typed text")));
  Find<QPlainTextEdit>("captureText")->setPlainText(QStringLiteral("-- it's \"so\", $HOME:\n\té ✓ \\n"));
  Find<QLineEdit>("captureLayers")->setText(QStringLiteral("1-2, 5"));
  auto* heads_kind = Find<QComboBox>("captureHeadsKind");
  heads_kind->setCurrentIndex(1);
  Find<QLineEdit>("captureHeads")->setText(QStringLiteral("0, 3"));
  Find<QLineEdit>("captureRows")->setText(QStringLiteral("last:3"));
  Find<QSpinBox>("captureDecode")->setValue(2);
  auto* copy = Find<QPushButton>("captureCommand");
  ASSERT_TRUE(WaitFor([&] { return copy->isEnabled(); })) << Find<QLabel>("captureProblem")->text().toStdString();
  QTest::mouseClick(copy, Qt::LeftButton);
  QString command = QApplication::clipboard()->text();
  ASSERT_TRUE(command.contains(ui::ShellQuoted(output))) << command.toStdString();
  QTest::mouseClick(Find<QPushButton>("captureStart"), Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(output) && !dialog_->IsCapturing(); }, 60000))
      << Find<QLabel>("captureStatus")->text().toStdString();
  const QString other = File(QStringLiteral("other.h5"));
  command.replace(ui::ShellQuoted(output), other).replace(0, 9, QStringLiteral(HEADSCOPE_PROGRAM));
  QProcess shell;
  shell.start(QStringLiteral("sh"), {QStringLiteral("-c"), command + QStringLiteral(" --quiet")});
  ASSERT_TRUE(shell.waitForFinished(60000));
  ASSERT_EQ(shell.exitCode(), 0) << shell.readAllStandardError().toStdString();
  std::vector<std::string> contents;
  for (const QString& path : {output, other}) {
    window_->OpenPath(path);
    ASSERT_TRUE(WaitFor([&] { return window_->store()->trace().path == path.toStdString(); }))
        << Notice().toStdString();
    contents.push_back(window_->store()->trace().contents);
    EXPECT_EQ(window_->store()->trace().heads.size(), 12U);
    EXPECT_EQ(window_->store()->trace().num_rows, 5);
  }
  EXPECT_EQ(contents[0], contents[1]);
  // Linux takes no longer argument.
  Find<QPlainTextEdit>("captureText")->setPlainText(QString(130 << 10, u'a'));
  EXPECT_FALSE(copy->isEnabled());
  EXPECT_TRUE(copy->toolTip().contains(QStringLiteral("too long for a command line"))) << copy->toolTip().toStdString();
}

TEST_F(CaptureTest, ReplacingTheTraceOnShowIsAskedAboutByThatName) {
  ASSERT_NO_FATAL_FAILURE(Prepare(trace_path(), 512));
  const qint64 size = QFileInfo(trace_path()).size();
  AnswerQuestion(QStringLiteral("No"));
  QTest::mouseClick(Find<QPushButton>("captureStart"), Qt::LeftButton);
  ASSERT_EQ(questions_.size(), 1U);
  EXPECT_TRUE(questions_[0].text.contains(QStringLiteral("the open trace"))) << questions_[0].text.toStdString();
  EXPECT_EQ(questions_[0].default_button, QStringLiteral("No"));
  EXPECT_FALSE(dialog_->IsCapturing());
  EXPECT_EQ(QFileInfo(trace_path()).size(), size);
}

}  // namespace
}  // namespace headscope::gui_test
