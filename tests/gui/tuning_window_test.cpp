// SPDX-License-Identifier: Apache-2.0
// The window's searches for the cheapest parameters, of one head and of all, and the pictures that panes offer.
#include <QAction>
#include <QClipboard>
#include <QJsonArray>
#include <QLabel>
#include <memory>
#include <string>
#include <utility>

#include "reach_fixture.h"

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
    canvas_->SetMassTarget(0.7);
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

// The search takes the head by itself, and so does the mask that is checked here.
TEST_F(ReachTest, MeetTargetFindsADecodeMethodsBudget) {
  Open();
  canvas_->RestoreViewState({{QStringLiteral("measures_alone"), true}});
  Use("sliding-window", "n_sink=4");
  constexpr double kTarget = 0.7;
  canvas_->SetMassTarget(kTarget);
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
  Use("quest", "page_size=4");
  constexpr double kTarget = 0.8;
  canvas_->SetMassTarget(kTarget);
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
  for (const char* name : {"matrix", "kept-mass", "kept-mass-curve", "trade-off"})
    EXPECT_TRUE(names.contains(QLatin1String(name))) << name;
  const QString mine = QStringLiteral("export-picture-mine");
  EXPECT_EQ(window_->ActionNamed(mine), nullptr);
  auto pane = std::make_unique<QObject>();
  QString why_not = QStringLiteral("it is empty"), written;
  window_->state()->offers.OfferPicture(pane.get(), {.name = QStringLiteral("mine"),
                                                     .title = QStringLiteral("My pane"),
                                                     .write =
                                                         [&](const QString& path) {
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
