// SPDX-License-Identifier: Apache-2.0
// The window's searches for the cheapest parameters, of one head and of all, and the pictures that panes offer.
#include <QAction>
#include <QClipboard>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QJsonArray>
#include <QLabel>
#include <QListWidget>
#include <QPushButton>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "reach_fixture.h"
#include "tune_dialog.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

TEST_F(ReachTest, EveryHeadIsTunedAsByTheCommandLineAndTheMatrixShowsIt) {
  Open();
  for (const auto& [method, parameters] :
       {std::pair{"streaming-llm", "n_dilated=0"}, std::pair{"sliding-window", "n_sink=4"}}) {
    SCOPED_TRACE(method);
    Use(method, parameters);
    window_->state()->trial.SetTarget(0.7);
    QTest::qWait(30);
    ASSERT_TRUE(Finish(Command::kSweepTune));
    ASSERT_EQ(window_->state()->sweep.Tuned().size(), 8U);
    EXPECT_EQ(window_->store()->metric(), "result.kept");
    auto* matrix = Find<ui::HeadMatrix>("headMatrix");
    EXPECT_TRUE(matrix->CellColor({1, 3}));
    const QString saved = File(QLatin1String(method) + QStringLiteral("-window.json"));
    AnswerFileDialog(saved);
    window_->commands()[Command::kExportTuning]->trigger();
    ASSERT_TRUE(WaitFor([&] { return QFile::exists(saved); }));
    window_->commands()[Command::kCopyTuneCommand]->trigger();
    const QJsonObject told =
        RunInShell(QApplication::clipboard()->text(), File(QLatin1String(method) + QStringLiteral("-tuned.json")));
    QFile file(saved);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    const QJsonObject exported = QJsonDocument::fromJson(file.readAll()).object();
    EXPECT_EQ(exported[QStringLiteral("heads")], told[QStringLiteral("heads")]);
    EXPECT_EQ(exported[QStringLiteral("methods")], told[QStringLiteral("methods")]);
    EXPECT_FALSE(told[QStringLiteral("heads")].toArray().isEmpty());
    EXPECT_EQ(exported[QStringLiteral("complete")], QJsonValue(true));
  }
}

// Every kind of file that the command line writes, byte by byte as it writes it.
TEST_F(ReachTest, ATuningIsWrittenToEveryKindOfFile) {
  Open();
  workbench_->SetMeasuresAlone(true);  // as the command line takes heads
  const std::vector<ui::TuningFile> files = workbench_->tuning_files();
  ASSERT_EQ(files.size(), 5U);
  for (const ui::TuningFile& file : files) {
    SCOPED_TRACE(file.name);
    const bool evicts = file.extension == ".npy";
    Use(evicts ? "knorm" : "a-shape", evicts ? "compression_ratio=0.5" : "n_sink=1024");
    window_->state()->trial.SetTarget(0.7);
    QTest::qWait(30);
    ASSERT_TRUE(Finish(Command::kSweepTune));
    ASSERT_EQ(window_->state()->sweep.Tuned().size(), 8U);
    const QString extension = QString::fromStdString(file.extension);
    const QString saved = File(QStringLiteral("window-") + QString::fromStdString(file.name) + extension);
    AnswerFileDialog(saved, QString::fromStdString(file.title));
    window_->commands()[Command::kExportTuning]->trigger();
    ASSERT_TRUE(WaitFor([&] { return QFile::exists(saved); }));
    window_->commands()[Command::kCopyTuneCommand]->trigger();
    const QString told = File(QStringLiteral("told-") + QString::fromStdString(file.name) + extension);
    RunInShell(QApplication::clipboard()->text() + QStringLiteral(" --format ") + QString::fromStdString(file.name),
               told);
    QFile of_window(saved), of_command(told);
    ASSERT_TRUE(of_window.open(QIODevice::ReadOnly) && of_command.open(QIODevice::ReadOnly));
    const QByteArray written = of_window.readAll();
    EXPECT_FALSE(written.isEmpty());
    EXPECT_EQ(Undated(written), Undated(of_command.readAll()));
  }
}

// Several methods, another target and a setting for every layer, as a person chooses them in the dialog: the same
// configuration as the command that it copies.
TEST_F(ReachTest, TheTuningDialogFindsWhatTheCommandLineFinds) {
  Open();
  for (const auto& [target, value, unit] : {std::tuple{"cra-mean", 0.8, "layer"}, std::tuple{"kept", 0.3, "head"},
                                            std::tuple{"error", 0.5, "head"}, std::tuple{"work", 0.6, "head"}}) {
    SCOPED_TRACE(target);
    window_->commands()[Command::kTuneDialog]->trigger();
    auto* dialog = Find<ui::TuneDialog>("tuneDialog");
    ASSERT_TRUE(WaitFor([&] { return dialog->isVisible(); }));
    EXPECT_TRUE(Find<QPushButton>("tuneStart")->isDefault()) << "Enter tunes";
    for (const QPushButton* button : dialog->findChildren<QPushButton*>())
      EXPECT_TRUE(button->isDefault() == (button->objectName() == QStringLiteral("tuneStart")))
          << button->text().toStdString();
    Find<QComboBox>("tunePhase")->setCurrentIndex(0);
    auto* methods = Find<QListWidget>("tuneMethods");
    for (int row = 0; row < methods->count(); ++row) {
      const QString name = methods->item(row)->data(Qt::UserRole).toString();
      const bool wanted = name == QStringLiteral("vertical-slash") || name == QStringLiteral("block-sparse");
      methods->item(row)->setCheckState(wanted ? Qt::Checked : Qt::Unchecked);
    }
    auto* targets = Find<QComboBox>("tuneTarget");
    for (int i = 0; i < targets->count(); ++i) {
      targets->setCurrentIndex(i);
      if (dialog->settings().target.name == target) break;
    }
    Find<QDoubleSpinBox>("tuneValue")->setValue(value);
    Find<QComboBox>("tuneUnit")->setCurrentIndex(QLatin1String(unit) == QStringLiteral("layer") ? 1 : 0);
    ASSERT_EQ(dialog->settings().methods.size(), 2U);
    const bool is_limit = dialog->settings().target.name == "kept" || dialog->settings().target.name == "work";
    EXPECT_EQ(Find<QComboBox>("tuneChoose")->isEnabled(), is_limit);
    Find<QComboBox>("tuneChoose")->setCurrentIndex(QLatin1String(target) == QStringLiteral("work") ? 1 : 0);
    Find<QPushButton>("tuneCopy")->click();
    const QString command = QApplication::clipboard()->text();
    Find<QPushButton>("tuneStart")->click();
    EXPECT_FALSE(dialog->isVisible());
    auto* progress = Find<ui::ProgressStrip>("progressStrip");
    ASSERT_TRUE(WaitFor([&] { return !progress->IsBusy() && !window_->state()->sweep.running(); }, 120000));
    ASSERT_EQ(window_->state()->sweep.Tuned().size(), 8U) << window_->state()->sweep.Summary().toStdString();
    const QString saved = File(QLatin1String(target) + QStringLiteral("-dialog.json"));
    AnswerFileDialog(saved);
    window_->commands()[Command::kExportTuning]->trigger();
    ASSERT_TRUE(WaitFor([&] { return QFile::exists(saved); }));
    const QJsonObject told = RunInShell(command, File(QLatin1String(target) + QStringLiteral("-command.json")));
    QFile file(saved);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    const QJsonObject exported = QJsonDocument::fromJson(file.readAll()).object();
    EXPECT_FALSE(told[QStringLiteral("heads")].toArray().isEmpty());
    EXPECT_EQ(exported[QStringLiteral("heads")], told[QStringLiteral("heads")]);
    EXPECT_EQ(exported[QStringLiteral("methods")], told[QStringLiteral("methods")]);
    EXPECT_EQ(exported[QStringLiteral("target")], told[QStringLiteral("target")]);
  }
}

// Each head as the panel's search judges it, in its group: the mask of what was found for a head keeps the target.
// An hour's work went with the window without a word.
TEST_F(ReachTest, WhatATuningHasFoundIsNotDroppedUnasked) {
  Open();
  ASSERT_NO_FATAL_FAILURE(Use("a-shape", "n_sink=4,n_local=64"));
  window_->state()->trial.SetTarget(0.6);
  ASSERT_TRUE(Finish(Command::kSweepTune));
  ASSERT_EQ(window_->state()->sweep.Tuned().size(), 8U);
  AnswerQuestion(QStringLiteral("Cancel"));
  EXPECT_FALSE(window_->close());
  ASSERT_EQ(questions_.size(), 1U);
  EXPECT_EQ(
      questions_[0].text,
      QStringLiteral("What the tuning has found for 8 of 8 heads has not been exported. Quitting discards it. Kept, "
                     "it is offered when this trace is opened again."));
  EXPECT_EQ(questions_[0].default_button, QStringLiteral("Cancel"));
  AnswerQuestion(QStringLiteral("Cancel"));
  window_->OpenPath(trace_path());
  EXPECT_EQ(questions_.size(), 2U);
  EXPECT_EQ(window_->state()->sweep.Tuned().size(), 8U) << "nothing was opened";
  const QString file = File(QStringLiteral("tuned.json"));
  QTest::qWait(1);  // those who answered are gone
  AnswerQuestion(QStringLiteral("Export…"));
  AnswerFileDialog(file);
  EXPECT_TRUE(window_->close()) << Find<QLabel>("noticeText")->text().toStdString();
  EXPECT_TRUE(QFile::exists(file));
  EXPECT_EQ(questions_.size(), 3U);
  EXPECT_TRUE(window_->close()) << "it is in a file";
  EXPECT_EQ(questions_.size(), 3U);
}

TEST_F(ReachTest, EveryHeadIsTunedInTheGroupThatSharesItsChoice) {
  Open();
  Use("quest", "page_size=4,dense_layers=0");
  constexpr double kTarget = 0.8;
  window_->state()->trial.SetTarget(kTarget);
  QTest::qWait(30);
  ASSERT_TRUE(Finish(Command::kSweepTune));
  const std::vector<ui::TunedSetting> tuned = window_->state()->sweep.Tuned();
  ASSERT_EQ(tuned.size(), 8U);
  for (const ui::TunedSetting& setting : tuned) {
    SCOPED_TRACE(testing::Message() << setting.head.layer << ':' << setting.head.head);
    window_->store()->Select(setting.head);
    ASSERT_TRUE(window_->state()->trial.SetValue("budget", setting.values.Real("budget")));
    ASSERT_TRUE(WaitForCanvas());
    ASSERT_NE(canvas_->mask(), nullptr);
    EXPECT_NEAR(canvas_->mask()->summary.cra_p5, setting.mass.fifth_percentile, 1e-6);
    EXPECT_NEAR(canvas_->mask()->summary.kept_fraction, setting.kept_fraction, 1e-9);
    EXPECT_EQ(setting.reached, canvas_->mask()->summary.cra_p5 >= kTarget);
  }
  const QString saved = File(QStringLiteral("group-window.json"));
  AnswerFileDialog(saved);
  window_->commands()[Command::kExportTuning]->trigger();
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(saved); }));
  window_->commands()[Command::kCopyTuneCommand]->trigger();
  const QJsonObject told = RunInShell(QApplication::clipboard()->text(), File(QStringLiteral("group-command.json")));
  QFile file(saved);
  ASSERT_TRUE(file.open(QIODevice::ReadOnly));
  EXPECT_EQ(Undated(QJsonDocument::fromJson(file.readAll()).object()), Undated(told));
}

// The search takes the head by itself, and so does the mask that is checked here.
TEST_F(ReachTest, MeetTargetFindsADecodeMethodsBudget) {
  Open();
  canvas_->RestoreViewState({{QStringLiteral("measures_alone"), true}});
  Use("sliding-window", "n_sink=4");
  constexpr double kTarget = 0.7;
  window_->state()->trial.SetTarget(kTarget);
  QTest::qWait(30);  // the change of target is told; it would end a search
  const double before = canvas_->method_values().Real("n_local");
  window_->commands()[Command::kMeetTarget]->trigger();
  ASSERT_TRUE(WaitFor([&] { return canvas_->method_values().Real("n_local") != before; }))
      << Find<QLabel>("noticeText")->text().toStdString() << window_->state()->queue.searching();
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_NE(canvas_->mask(), nullptr);
  ASSERT_NE(canvas_->mask()->steps, nullptr);
  EXPECT_GE(canvas_->mask()->summary.cra_p5, kTarget - 1e-6);
  // A step fewer of those that are searched (analysis::SearchedGrid) keeps too little.
  const double found = canvas_->method_values().Real("n_local");
  double step = 64;
  while (static_cast<double>(kTokens) / step < 64) step /= 2;
  ASSERT_GT(found, step);
  ASSERT_TRUE(window_->state()->trial.SetValue("n_local", found - step));
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_LT(canvas_->mask()->summary.cra_p5, kTarget);
}

// In its group a head shares its choice with others: that mask is what the target is said of.
TEST_F(ReachTest, MeetTargetHoldsInTheGroupThatSharesAChoice) {
  Open();
  Use("quest", "page_size=4,dense_layers=0");
  constexpr double kTarget = 0.8;
  window_->state()->trial.SetTarget(kTarget);
  QTest::qWait(30);
  const double before = canvas_->method_values().Real("budget");
  window_->commands()[Command::kMeetTarget]->trigger();
  ASSERT_TRUE(WaitFor([&] { return canvas_->method_values().Real("budget") != before; }))
      << Find<QLabel>("noticeText")->text().toStdString() << window_->state()->queue.searching();
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_NE(canvas_->mask(), nullptr);
  EXPECT_GE(canvas_->mask()->summary.cra_p5, kTarget - 1e-6);
  EXPECT_LT(canvas_->method_values().Real("budget"), kTokens);
}

// A pane names its picture once, where it is made: menu, palette and file name know of no pane.
TEST_F(ReachTest, APaneThatOffersAPictureHasACommandForIt) {
  Open();
  QStringList names;
  for (const auto& picture : window_->state()->offers.pictures()) names.append(picture.name);
  for (const char* name : {"matrix", "heads", "runs", "kept-mass", "kept-mass-curve", "trade-off", "maps", "histogram",
                           "lost-keys", "quantisation"})
    EXPECT_TRUE(names.contains(QLatin1String(name))) << name;
  const QString mine = QStringLiteral("export-picture-mine");
  EXPECT_EQ(window_->ActionNamed(mine), nullptr);
  auto pane = std::make_unique<QObject>();
  QString why_not = QStringLiteral("it is empty"), written;
  window_->state()->offers.OfferPicture(pane.get(), {.name = QStringLiteral("mine"),
                                                     .title = QStringLiteral("My pane"),
                                                     .write =
                                                         [&](const QString& path, int) {
                                                           written = path;
                                                           return QString();
                                                         },
                                                     .why_not = [&] { return why_not; }});
  QAction* const action = window_->ActionNamed(mine);
  ASSERT_NE(action, nullptr);
  EXPECT_FALSE(action->isEnabled());
  EXPECT_TRUE(action->statusTip().contains(why_not)) << action->statusTip().toStdString();
  why_not.clear();
  Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  EXPECT_TRUE(action->isEnabled()) << "asked when the palette is opened";
  Press(Qt::Key_Escape);
  AnswerFileDialog(File(QStringLiteral("mine.svg")));
  action->trigger();
  EXPECT_TRUE(WaitFor([&] { return written == File(QStringLiteral("mine.svg")); }));
  pane.reset();
  EXPECT_EQ(window_->ActionNamed(mine), nullptr);
}

}  // namespace
}  // namespace headscope::gui_test
