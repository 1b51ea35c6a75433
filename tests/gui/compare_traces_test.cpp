// SPDX-License-Identifier: Apache-2.0
// A trace of another model beside the open one: other layers and heads, and another length.
#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QImage>
#include <QJsonArray>
#include <QLabel>
#include <QTableView>
#include <QTimer>
#include <QUndoStack>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "fake_workbench.h"
#include "head_table.h"
#include "oracle_traces.h"
#include "reach_fixture.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

// 700 tokens; heads 0 to 3 of layer 0, 0 to 5 of layer 1, 0 and 1 of layer 3. The small trace has 512 tokens, and heads
// 0 to 3 of layers 0 and 1.
class CompareTracesTest : public ReachTest {
 protected:
  CompareTracesTest() { analysis::testing::WriteDifferingTrace(another().toStdString()); }
  QString another() const { return File(QStringLiteral("another-model.h5")); }
  void CompareWith(const QString& path) {
    AnswerFileDialog(path);
    window_->commands()[Command::kCompareTrace]->trigger();
    ASSERT_TRUE(WaitFor([&] { return window_->store()->HasOther(); }));
    ASSERT_NE(window_->second_canvas(), nullptr);
    ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
  }
  bool BothSettled() const { return window_->canvas()->IsSettled() && window_->second_canvas()->IsSettled(); }
};

TEST_F(CompareTracesTest, HeadsThatBothHaveAreComparedAndTheDifferenceIsOfTheShorterOnesQueries) {
  Open({1, 2});
  ASSERT_TRUE(WaitForStatistics());
  window_->store()->SetMetric("entropy");
  CompareWith(another());
  ui::HeadStore* const heads = window_->store();
  ui::HeadCanvas* const second = window_->second_canvas();
  EXPECT_EQ(second->head(), (HeadId{1, 2}));
  ASSERT_TRUE(WaitFor([&] {
    const std::vector<HeadId>& all = heads->trace().heads;
    return std::all_of(all.begin(), all.end(), [&](HeadId head) {
      const auto* exact = heads->FindOther(head);
      return exact != nullptr && exact->num_rows == 700;
    });
  })) << Find<QLabel>("noticeText")->text().toStdString();
  const QJsonObject told =
      RunInShell(QStringLiteral("headscope diff %1 %2 --metrics entropy").arg(trace_path(), another()),
                 File(QStringLiteral("diff.json")));
  ASSERT_EQ(told["heads"].toArray().size(), 8);
  for (const QJsonValue& value : told["heads"].toArray()) {
    EXPECT_NEAR(heads->MetricOf({value["layer"].toInt(), value["head"].toInt()}),
                value["metrics"]["entropy"]["difference"].toDouble(), 1e-5);
  }
  // The maps show one part at one scale, and say what of it is compared.
  window_->commands()[Command::kMapDifference]->trigger();
  ASSERT_TRUE(WaitFor([&] { return BothSettled() && canvas_->comparison() == ui::Comparison::kValues; }));
  EXPECT_DOUBLE_EQ(second->ScoresPerPixel(), canvas_->ScoresPerPixel());
  EXPECT_EQ(second->PixelOf(300, 100), canvas_->PixelOf(300, 100));
  ASSERT_EQ(canvas_->ComparisonLines().size(), 3);
  EXPECT_TRUE(canvas_->ComparisonLines()[2].contains(QStringLiteral("the first 512 queries in common")))
      << canvas_->ComparisonLines()[2].toStdString();
  // The picture in a file is the one that the copied command draws.
  const QString exported = File(QStringLiteral("window.png")), drawn = File(QStringLiteral("shell.png"));
  AnswerFileDialog(exported, QStringLiteral("white"));
  ASSERT_TRUE(Finish(Command::kExportCanvas));
  ASSERT_TRUE(WaitFor([&] { return QFile::exists(exported); }));
  window_->commands()[Command::kCopyViewCommand]->trigger();
  RunInShell(QApplication::clipboard()->text().section(QStringLiteral(" -o "), 0, 0), drawn);
  ASSERT_FALSE(QImage(exported).isNull());
  EXPECT_EQ(QImage(exported), QImage(drawn));
  // Alone, the other map is as large as it is.
  window_->commands()[Command::kMapDifference]->trigger();
  ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
  second->FitView();
  EXPECT_GT(second->ScoresPerPixel(), canvas_->ScoresPerPixel());
}

// What ran beside the other trace's statistics ran on a busy machine: it runs again when they are gone, as it does
// behind those of the first trace.
TEST_F(CompareTracesTest, TheStatusBarNamesTheOtherTraceAndLiveRunsAreMadeAgainWithoutIt) {
  Open({1, 2});
  ASSERT_TRUE(WaitForStatistics());
  CompareWith(another());
  const auto* heads = Find<QLabel>("headLabel");
  EXPECT_TRUE(heads->text().startsWith(QStringLiteral("layer 1, head 2 beside layer 1, head 2 of another-model.h5, ")))
      << heads->text().toStdString();
  EXPECT_EQ(window_->second_canvas()->range(), canvas_->range()) << "one colour is one value in both";
  const ui::MethodTrial& trial = window_->state()->trial;
  ASSERT_TRUE(WaitFor([&] { return trial.live() && !trial.live_pending(); }));
  bool runs_again = false;
  const QObject watch;
  QObject::connect(&trial, &ui::MethodTrial::Changed, &watch, [&] { runs_again = runs_again || trial.live_pending(); });
  window_->commands()[Command::kCompareTrace]->trigger();
  ASSERT_FALSE(window_->store()->HasOther());
  EXPECT_TRUE(runs_again);
  ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
  EXPECT_FALSE(heads->text().contains(QStringLiteral("another-model"))) << heads->text().toStdString();
  EXPECT_EQ(window_->second_canvas()->range(), canvas_->range());
  EXPECT_FALSE(Find<ui::ProgressStrip>("progressStrip")->IsBusy());
}

// A workbench that says whether the window lets what it measures wait for the screen.
class AskingWorkbench : public ui::testing::FakeWorkbench {
 public:
  AskingWorkbench() : FakeWorkbench(64) {
    SetPoster([](std::function<void()> act) { QTimer::singleShot(0, qApp, std::move(act)); });
  }
  std::unique_ptr<ui::Workbench> Another() override {
    auto made = std::make_unique<AskingWorkbench>();
    another = made.get();
    return made;
  }
  // Set when the screen was waited for.
  std::shared_ptr<bool> AskForScreen() const {
    auto drawn = std::make_shared<bool>(false);
    CallWhenDrawn(ui::Drawn::kTiles, [drawn] { *drawn = true; });
    return drawn;
  }

  AskingWorkbench* another = nullptr;
};

TEST_F(CompareTracesTest, WhatIsMeasuredOfTheOtherTraceWaitsForTheScreen) {
  CloseWindow();
  auto bench = std::make_unique<AskingWorkbench>();
  AskingWorkbench* const first = bench.get();
  workbench_ = std::move(bench);
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasTrace(); }));
  AnswerFileDialog(another());
  window_->commands()[Command::kCompareTrace]->trigger();
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasOther(); }));
  ASSERT_NE(first->another, nullptr);
  for (const AskingWorkbench* asking : {first, first->another}) {
    const std::shared_ptr<bool> drawn = asking->AskForScreen();
    EXPECT_FALSE(*drawn) << "it is not waited for";
    EXPECT_TRUE(WaitFor([&] { return *drawn; }));
  }
}

TEST_F(CompareTracesTest, TheOtherTracesStatisticsAreShownStoppedAndResumed) {
  OpenWindow(ShippedTrace());
  ASSERT_TRUE(WaitForCanvas());
  auto* progress = Find<ui::ProgressStrip>("progressStrip");
  progress->CancelShown();
  ASSERT_TRUE(WaitFor([&] { return !progress->IsBusy(); }));
  // While something is measured, statistics wait: eighty heads, some seconds each.
  window_->canvas()->RestoreViewState({{QStringLiteral("repeats"), 500}, {QStringLiteral("measures_alone"), true}});
  ui::HeadSweep& sweep = window_->state()->sweep;
  window_->commands()[Command::kSweepMeasure]->trigger();
  ASSERT_TRUE(WaitFor([&] { return sweep.num_done() > 0; }, 60000));
  AnswerFileDialog(another());
  window_->commands()[Command::kCompareTrace]->trigger();
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasOther(); }));
  ASSERT_TRUE(sweep.running());
  progress->CancelShown();  // of what began last
  EXPECT_TRUE(sweep.running());
  const auto* notice = Find<QLabel>("noticeText");
  EXPECT_TRUE(notice->text().startsWith(QStringLiteral("Statistics of another-model.h5 stopped.")))
      << notice->text().toStdString();
  QTest::mouseClick(Find<QPushButton>("noticeAction"), Qt::LeftButton);
  EXPECT_EQ(window_->store()->FindOther({1, 2}), nullptr);
  sweep.Stop();
  EXPECT_TRUE(progress->IsBusy());
  const auto* text = Find<QLabel>("progressText");
  EXPECT_TRUE(
      WaitFor([&] { return text->text().contains(QStringLiteral(" of another-model.h5")) || !progress->IsBusy(); }));
  EXPECT_TRUE(text->text().contains(QStringLiteral(" of another-model.h5"))) << text->text().toStdString();
  ASSERT_TRUE(WaitFor([&] { return !progress->IsBusy(); }));
  const auto* exact = window_->store()->FindOther({1, 2});
  ASSERT_NE(exact, nullptr);
  EXPECT_EQ(exact->num_rows, 700);
}

TEST_F(CompareTracesTest, AHeadThatTheOtherTraceLacksIsSaidToBeMissing) {
  OpenWindow(another());
  ASSERT_TRUE(WaitForStatistics());
  window_->store()->Select({3, 1});
  ASSERT_TRUE(WaitForCanvas());
  window_->store()->SetMetric("entropy");
  CompareWith(trace_path());
  ui::HeadCanvas* const second = window_->second_canvas();
  EXPECT_FALSE(second->HasHead());
  ASSERT_TRUE(WaitFor([&] { return !second->accessibleDescription().isEmpty(); }));
  EXPECT_EQ(second->accessibleDescription(),
            QStringLiteral("small.h5 has no head 3:1: choose another one, which both traces have."));
  EXPECT_TRUE(std::isnan(window_->store()->MetricOf({3, 1})));
  const auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  EXPECT_TRUE(matrix->ToolTip({3, 1}).contains(QStringLiteral("the other trace has no such head")))
      << matrix->ToolTip({3, 1}).toStdString();
  const auto* table = Find<QTableView>("headTable");
  const QAbstractItemModel& rows = *table->model();
  for (int row = 0; row < rows.rowCount(); ++row) {
    const bool is_missing = rows.index(row, ui::HeadTableModel::kLayer).data().toInt() == 3 ||
                            rows.index(row, ui::HeadTableModel::kHead).data().toInt() > 3;
    EXPECT_EQ(rows.index(row, ui::HeadTableModel::DifferenceColumn()).data().toString() == u"–", is_missing) << row;
  }
  EXPECT_FALSE(matrix->CellColor({3, 1})) << "hatched: there is no difference";
  // The next one is there in both.
  window_->store()->Select({1, 2});
  ASSERT_TRUE(WaitFor([&] { return second->HasHead() && BothSettled(); }));
  EXPECT_EQ(second->head(), (HeadId{1, 2}));
  ASSERT_TRUE(WaitFor([&] { return !std::isnan(window_->store()->MetricOf({1, 2})); }));
  EXPECT_TRUE(matrix->ToolTip({1, 2}).contains(QStringLiteral("in the other trace")));
  window_->commands()[Command::kMapDifference]->trigger();
  ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
  ASSERT_EQ(window_->canvas()->ComparisonLines().size(), 3);
}

// The command forbids it, and so does the way back.
TEST_F(CompareTracesTest, ASwapIsNotTakenBackWhileTheSecondMapShowsAnotherTrace) {
  Open({1, 2});
  ASSERT_TRUE(WaitForStatistics());
  window_->commands()[Command::kSplit]->trigger();
  ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
  window_->store()->Select({1, 1});
  ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
  QUndoStack* const steps = window_->state()->parameters.stack();
  window_->commands()[Command::kExchangeMaps]->trigger();
  ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
  ASSERT_EQ(canvas_->head(), (HeadId{1, 2}));
  const QString swap = steps->undoText();
  const int before = steps->index() - 1;
  CompareWith(another());
  while (steps->index() > before + 1) window_->commands()[Command::kUndo]->trigger();
  ASSERT_EQ(steps->undoText(), swap);
  ASSERT_TRUE(window_->store()->HasOther());
  window_->commands()[Command::kUndo]->trigger();
  ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
  EXPECT_EQ(canvas_->head(), (HeadId{1, 2}));
  EXPECT_EQ(steps->index(), before);
  EXPECT_TRUE(Find<QLabel>("noticeText")->text().contains(QStringLiteral("not swapped back")));
  EXPECT_NE(steps->redoText(), swap) << "without the way back there is none forth";
}

// What a person hovers for, not a list of all that is known.
TEST_F(CompareTracesTest, TheMatrixsToolTipIsShortAndBeginsWithWhatTheColoursShow) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  const auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  const analysis::HeadStatistics& statistics = *window_->store()->Find({0, 2});
  for (const char* metric : {"max_probability", "entropy", "class"}) {
    window_->store()->SetMetric(metric);
    const QString tip = matrix->ToolTip({0, 2});
    const QString head_class = QString::fromLatin1(analysis::HeadClassName(statistics.head_class)) + u':';
    const auto* info = window_->store()->metric_info();
    if (info == nullptr) {
      EXPECT_TRUE(tip.section(QStringLiteral("<br>"), 1, 1).startsWith(head_class)) << tip.toStdString();
    } else {
      EXPECT_TRUE(tip.section(QStringLiteral("<br>"), 1, 1)
                      .startsWith(QStringLiteral("<b>%1: %2")
                                      .arg(QString::fromStdString(info->title),
                                           ui::FormatMetric(analysis::MetricValue(statistics, metric)))))
          << tip.toStdString();
      EXPECT_TRUE(tip.section(QStringLiteral("<br>"), 2, 2).startsWith(head_class)) << tip.toStdString();
      EXPECT_EQ(tip.count(QString::fromStdString(info->title)), 1) << "and not once more below";
    }
    EXPECT_EQ(tip.count(QStringLiteral("<tr>")), 5) << tip.toStdString();
    EXPECT_TRUE(tip.endsWith(QStringLiteral("<i>All of its statistics are columns of the Heads table.</i>")));
  }
}

}  // namespace
}  // namespace headscope::gui_test
