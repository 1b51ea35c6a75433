// SPDX-License-Identifier: Apache-2.0
// A trace of another model beside the open one: other layers and heads, and another length.
#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QFile>
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
#include "setting_history.h"

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
  window_->commands()[Command::kCopyDifferenceCommand]->trigger();
  const QString command = QApplication::clipboard()->text();
  EXPECT_TRUE(command.endsWith(QStringLiteral(" --metrics entropy"))) << command.toStdString();
  const QJsonObject told = RunInShell(command, File(QStringLiteral("diff.json")));
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

// That it was opened was two steps, and that it was closed one that did nothing.
TEST_F(CompareTracesTest, AComparisonIsBegunAndEndedInOneStepEach) {
  Open({1, 2});
  ASSERT_TRUE(WaitForStatistics());
  QUndoStack* const steps = window_->state()->parameters.stack();
  const int before = steps->index();
  const ui::HeadStore* const heads = window_->store();
  ASSERT_NO_FATAL_FAILURE(CompareWith(another()));
  EXPECT_EQ(steps->index(), before + 1) << steps->undoText().toStdString();
  EXPECT_EQ(steps->undoText(), QStringLiteral("comparison with another-model.h5"));
  const auto take = [&](Command command) {
    window_->commands()[command]->trigger();
    ASSERT_TRUE(WaitForCanvas());
  };
  ASSERT_NO_FATAL_FAILURE(take(Command::kUndo));
  EXPECT_FALSE(heads->HasOther());
  EXPECT_EQ(window_->second_canvas(), nullptr);
  EXPECT_EQ(steps->index(), before);
  const auto is_compared = [&] {
    return WaitFor([&] { return heads->HasOther() && window_->second_canvas() != nullptr && BothSettled(); });
  };
  ASSERT_NO_FATAL_FAILURE(take(Command::kRedo));
  ASSERT_TRUE(is_compared());
  EXPECT_TRUE(heads->shows_differences());
  EXPECT_EQ(QString::fromStdString(window_->second_canvas()->trace().path), another());
  EXPECT_EQ(steps->index(), before + 1);
  EXPECT_FALSE(steps->canRedo());
  // The map beside the first stays when the comparison ends.
  QTest::qWait(ui::SettingHistory::kOneChangeMs + 50);
  window_->commands()[Command::kHeadDifferences]->trigger();
  ASSERT_NO_FATAL_FAILURE(take(Command::kCompareTrace));
  EXPECT_FALSE(heads->HasOther());
  EXPECT_NE(window_->second_canvas(), nullptr);
  EXPECT_EQ(steps->undoText(), QStringLiteral("end of the comparison with another-model.h5"));
  ASSERT_NO_FATAL_FAILURE(take(Command::kUndo));
  ASSERT_TRUE(is_compared());
  EXPECT_FALSE(heads->shows_differences()) << "as before the end";
  ASSERT_NO_FATAL_FAILURE(take(Command::kUndo));
  EXPECT_TRUE(heads->shows_differences());
  // A file that is gone by then is said, and the steps go on without it.
  ASSERT_NO_FATAL_FAILURE(take(Command::kRedo));
  ASSERT_NO_FATAL_FAILURE(take(Command::kRedo));
  ASSERT_FALSE(heads->HasOther());
  ASSERT_TRUE(QFile::remove(another()));
  ASSERT_NO_FATAL_FAILURE(take(Command::kUndo));
  const auto* notice = Find<QLabel>("noticeText");
  EXPECT_TRUE(WaitFor([&] { return notice->text().contains(another()); })) << notice->text().toStdString();
  EXPECT_FALSE(heads->HasOther());
  const int at = steps->index();
  QTest::qWait(ui::SettingHistory::kOneChangeMs);
  EXPECT_EQ(steps->index(), at);
}

// Whatever was told of the window in between made a step of its own, and no redo was left.
TEST_F(CompareTracesTest, AComparisonThatIsSetAgainStandsAmongTheStepsBeforeItsTraceIsRead) {
  Open({1, 2});
  ASSERT_TRUE(WaitForStatistics());
  QUndoStack* const steps = window_->state()->parameters.stack();
  const ui::HeadStore* const heads = window_->store();
  ASSERT_NO_FATAL_FAILURE(CompareWith(another()));
  const int index = steps->index();
  const QString comparison = steps->undoText();
  window_->store()->SetMetric("entropy");
  ASSERT_EQ(steps->index(), index + 1);
  const auto take = [&](Command command) { window_->commands()[command]->trigger(); };
  take(Command::kUndo);
  take(Command::kUndo);
  ASSERT_FALSE(heads->HasOther());
  const auto is_compared = [&] {
    return WaitFor([&] { return heads->HasOther() && window_->second_canvas() != nullptr && BothSettled(); });
  };
  take(Command::kRedo);
  ASSERT_FALSE(heads->HasOther()) << "it is still read";
  EXPECT_FALSE(window_->commands()[Command::kExchangeMaps]->isEnabled());
  window_->store()->Select({1, 1});
  EXPECT_EQ(steps->index(), index);
  EXPECT_EQ(steps->undoText(), comparison);
  EXPECT_TRUE(steps->canRedo());
  ASSERT_TRUE(is_compared());
  EXPECT_EQ(steps->index(), index);
  EXPECT_EQ(steps->undoText(), comparison);
  take(Command::kRedo);
  EXPECT_EQ(heads->metric(), "entropy");
  // One map alone, before it is there: it does not come, and is back with the second map.
  take(Command::kUndo);
  take(Command::kUndo);
  take(Command::kRedo);
  ASSERT_FALSE(heads->HasOther());
  take(Command::kSplit);
  EXPECT_EQ(window_->second_canvas(), nullptr);
  EXPECT_EQ(steps->index(), index + 1);
  EXPECT_FALSE(Find<ui::ProgressStrip>("progressStrip")->IsBusy());
  QTest::qWait(500);
  EXPECT_FALSE(heads->HasOther());
  EXPECT_EQ(window_->second_canvas(), nullptr);
  take(Command::kUndo);
  EXPECT_TRUE(is_compared());
  EXPECT_EQ(steps->index(), index);
}

// It kept the first map's, which the comparison had given it.
TEST_F(CompareTracesTest, TheSecondMapHasItsOwnHeadAndMethodAgainWhenAComparisonIsTakenBack) {
  Open({0, 1});
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_NO_FATAL_FAILURE(Use("a-shape", "n_sink=4,n_local=64"));
  window_->commands()[Command::kSplit]->trigger();
  ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
  ASSERT_NO_FATAL_FAILURE(Use("block-sparse", "n_blocks=2"));
  window_->store()->Select({1, 2});
  ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
  const ui::MethodTrial& second = window_->state()->references.front();
  const auto shows = [&](HeadId head, const char* method, const char* parameter, int64_t value) {
    ASSERT_TRUE(WaitFor([&] { return BothSettled(); }));
    EXPECT_EQ(window_->second_canvas()->head(), head);
    ASSERT_EQ(second.method()->name, method);
    EXPECT_EQ(second.values().Integer(parameter), value);
  };
  ASSERT_NO_FATAL_FAILURE(shows({0, 1}, "a-shape", "n_local", 64));
  ASSERT_NO_FATAL_FAILURE(CompareWith(another()));
  ASSERT_NO_FATAL_FAILURE(shows({1, 2}, "block-sparse", "n_blocks", 2));
  window_->commands()[Command::kUndo]->trigger();
  ASSERT_FALSE(window_->store()->HasOther());
  ASSERT_NO_FATAL_FAILURE(shows({0, 1}, "a-shape", "n_local", 64));
  window_->commands()[Command::kRedo]->trigger();
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasOther(); }));
  ASSERT_NO_FATAL_FAILURE(shows({1, 2}, "block-sparse", "n_blocks", 2));
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
  EXPECT_EQ(notice->text(),
            QStringLiteral("Statistics of another-model.h5 stopped. The remaining heads are not compared yet."));
  QTest::mouseClick(Find<QPushButton>("noticeAction"), Qt::LeftButton);
  // Before the first of them reports.
  EXPECT_EQ(Find<QLabel>("progressText")->text(), QStringLiteral("Statistics of another-model.h5   (+1 more)"));
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

// The comparison, which a swap would end, goes first; also one that is on its way back.
TEST_F(CompareTracesTest, ASwapIsTakenBackBehindTheComparison) {
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
  const int swapped = steps->index();
  CompareWith(another());
  EXPECT_FALSE(window_->commands()[Command::kExchangeMaps]->isEnabled());
  window_->commands()[Command::kCompareTrace]->trigger();
  ASSERT_FALSE(window_->store()->HasOther());
  // In one go: the trace that the first of them opens again has not answered yet.
  while (steps->index() > swapped) window_->commands()[Command::kUndo]->trigger();
  ASSERT_EQ(steps->undoText(), swap);
  window_->commands()[Command::kUndo]->trigger();
  ASSERT_TRUE(WaitFor([&] { return BothSettled() && !Find<ui::ProgressStrip>("progressStrip")->IsBusy(); }));
  EXPECT_FALSE(window_->store()->HasOther());
  EXPECT_EQ(steps->redoText(), swap);
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
