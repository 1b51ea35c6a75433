// SPDX-License-Identifier: Apache-2.0
// What a person sets beside the map and the method's parameters is taken back and set again, and what a pane is set to
// comes with the next start.
#include <QAction>
#include <QApplication>
#include <QCheckBox>
#include <QComboBox>
#include <QHeaderView>
#include <QMouseEvent>
#include <QSpinBox>
#include <QTableView>
#include <array>
#include <utility>

#include "maps_pane.h"
#include "reach_fixture.h"
#include "runs_model.h"
#include "set_repeats.h"
#include "setting_history.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

class UndoTest : public ReachTest {
 protected:
  void Undo() { ASSERT_NO_FATAL_FAILURE(Take(Command::kUndo)); }
  void Redo() { ASSERT_NO_FATAL_FAILURE(Take(Command::kRedo)); }
  void Take(Command command) {
    ASSERT_TRUE(window_->commands()[command]->isEnabled());
    window_->commands()[command]->trigger();
    ASSERT_TRUE(WaitForCanvas());
  }
  // What follows is another step.
  void Pause() {
    ASSERT_TRUE(WaitForCanvas());
    QTest::qWait(ui::SettingHistory::kOneChangeMs + 50);
  }
  // Heads 0:1 and 0:2 have a method each.
  void UseTwoHeads() {
    const auto setting = [this](HeadId head, const char* method) {
      return ui::HeadSetting{head,
                             {method, kernels::ParameterValues(*window_->state()->FindMethod(QLatin1String(method)))}};
    };
    window_->state()->configuration.Use(QStringLiteral("two heads"), {},
                                        {setting({0, 1}, "block-sparse"), setting({0, 2}, "dense")});
  }
  bool CanUndo() const { return window_->state()->parameters.stack()->canUndo(); }
};

constexpr std::array kBoxes = {"curveOrder",  "tradeOffCost",   "tradeOffQuality", "figureChoice",
                               "figureHeads", "quantiseFormat", "quantiseScale",   "quantiseHadamard"};

TEST_F(UndoTest, WhatPanesAreSetToIsTakenBackAndKept) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_FALSE(CanUndo());
  for (const char* name : kBoxes) {
    SCOPED_TRACE(name);
    auto* box = Find<QComboBox>(name);
    ASSERT_EQ(box->currentIndex(), 0);
    box->setCurrentIndex(1);
    ASSERT_TRUE(CanUndo());
    ASSERT_NO_FATAL_FAILURE(Undo());
    EXPECT_EQ(box->currentIndex(), 0);
    ASSERT_FALSE(CanUndo());
    ASSERT_NO_FATAL_FAILURE(Redo());
    EXPECT_EQ(box->currentIndex(), 1);
    ASSERT_NO_FATAL_FAILURE(Undo());
  }
  auto* counts = Find<QCheckBox>("logCounts");
  counts->setChecked(false);
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_TRUE(counts->isChecked());
  ASSERT_NO_FATAL_FAILURE(Redo());
  for (const char* name : kBoxes) Find<QComboBox>(name)->setCurrentIndex(1);
  // A figure that a command chooses is chosen in the pane as well.
  const QString chosen = Find<QComboBox>("figureChoice")->itemData(2).toString();
  window_->state()->figures.Choose(chosen);
  ASSERT_TRUE(WaitFor([&] { return !Find<ui::ProgressStrip>("progressStrip")->IsBusy(); }));
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  for (const char* name : kBoxes)
    EXPECT_EQ(Find<QComboBox>(name)->currentIndex(), name == std::string("figureChoice") ? 2 : 1) << name;
  EXPECT_FALSE(Find<QCheckBox>("logCounts")->isChecked());
  EXPECT_EQ(window_->state()->quantise.settings().formats.size(), 1U) << "as chosen in its pane";
  EXPECT_FALSE(CanUndo()) << "nobody has set it since";
}

// All were "change view".
TEST_F(UndoTest, AStepSaysWhatItTakesBack) {
  Open();
  const std::array steps = {std::pair{Command::kThemeDark, "&Undo colours of the window"},
                            std::pair{Command::kLogScale, "&Undo scale of the map"},
                            std::pair{Command::kSplit, "&Undo split of the map"},
                            std::pair{Command::kSplitFollows, "&Undo maps that follow the head"}};
  for (const auto& [command, text] : steps) {
    window_->commands()[command]->trigger();
    ASSERT_TRUE(WaitForCanvas());
    EXPECT_EQ(window_->commands()[Command::kUndo]->text().toStdString(), text);
  }
  window_->store()->SetMetric("entropy");
  EXPECT_EQ(window_->commands()[Command::kUndo]->text(), QStringLiteral("&Undo colour of the heads"));
}

// A map tells of its settings behind its next frame: what was asked for before that came first among the steps, or took
// the step before back.
TEST_F(UndoTest, WhatWasSetAtOnceBeforeIsTheStepBefore) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  window_->commands()[Command::kSplit]->trigger();
  ASSERT_TRUE(WaitForCanvas());
  window_->store()->Select({0, 1});
  ASSERT_TRUE(WaitForCanvas());
  SetRepeats(canvas_, 1);
  ASSERT_TRUE(Finish(Command::kRun));
  ASSERT_TRUE(WaitForCanvas());
  QUndoStack* const steps = window_->state()->parameters.stack();
  for (const Command command : {Command::kClearRuns, Command::kExchangeMaps}) {
    ASSERT_NO_FATAL_FAILURE(Pause());
    const int before = steps->index();
    const auto scale = canvas_->scale();
    window_->commands()[Command::kLogScale]->trigger();
    window_->commands()[command]->trigger();
    ASSERT_EQ(steps->index(), before + 2);
    EXPECT_EQ(steps->text(before), QStringLiteral("scale of the map"));
    ASSERT_TRUE(WaitForCanvas());
    EXPECT_EQ(steps->index(), before + 2);
    ASSERT_NO_FATAL_FAILURE(Undo());
    EXPECT_NE(canvas_->scale(), scale);
    ASSERT_NO_FATAL_FAILURE(Undo());
    EXPECT_EQ(canvas_->scale(), scale);
  }
  ASSERT_NO_FATAL_FAILURE(Pause());
  window_->store()->SetMetric("entropy");
  const int before = steps->index();
  const auto scale = canvas_->scale();
  window_->commands()[Command::kLogScale]->trigger();
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_EQ(canvas_->scale(), scale);
  EXPECT_EQ(window_->store()->metric(), "entropy");
  EXPECT_EQ(steps->index(), before);
  // What is set anew ends what could be set again.
  window_->commands()[Command::kOverlay]->trigger();
  window_->commands()[Command::kRedo]->trigger();
  EXPECT_EQ(canvas_->scale(), scale);
  EXPECT_FALSE(steps->canRedo());
}

// A colour range is told behind the frame that shows it: Ctrl+Z in the same moment took back the step before.
TEST_F(UndoTest, ARangeThatWasJustSetIsTheLastStep) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  window_->store()->SetMetric("entropy");
  canvas_->ZoomTo(300, 340, 200, 240);
  ASSERT_NO_FATAL_FAILURE(Pause());
  const int before = window_->state()->parameters.stack()->index();
  const analysis::ValueRange range = canvas_->range();
  canvas_->FitRange();
  const analysis::ValueRange fitted = canvas_->range();
  ASSERT_NE(fitted, range);
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_EQ(canvas_->range(), range);
  EXPECT_EQ(window_->store()->metric(), "entropy");
  EXPECT_EQ(window_->state()->parameters.stack()->index(), before);
  ASSERT_NO_FATAL_FAILURE(Redo());
  EXPECT_EQ(canvas_->range(), fitted);
  EXPECT_EQ(window_->state()->parameters.stack()->count(), before + 1) << "and it is told once";
}

TEST_F(UndoTest, AStepOfTheMapsSettingsSaysWhich) {
  Open();
  const std::array settings = {
      std::pair{QJsonObject{{"profiles", !canvas_->DisplayState()["profiles"].toBool()}}, "profiles of the map"},
      std::pair{QJsonObject{{"minimap", !canvas_->DisplayState()["minimap"].toBool()}}, "minimap"},
      std::pair{QJsonObject{{"live_runs", !canvas_->DisplayState()["live_runs"].toBool()}}, "live runs"},
      std::pair{QJsonObject{{"repeats", 7}}, "repeats of a run"},
      std::pair{QJsonObject{{"measures_alone", !canvas_->DisplayState()["measures_alone"].toBool()}},
                "runs of one head alone"},
      std::pair{QJsonObject{{"picture_width", 1234}}, "width of pictures"},
      std::pair{QJsonObject{{"picture_ground", "dark"}}, "background of pictures"}};
  for (const auto& [setting, text] : settings) {
    canvas_->RestoreViewState(setting);
    ASSERT_TRUE(WaitForCanvas());
    EXPECT_EQ(window_->state()->parameters.stack()->undoText().toStdString(), text);
  }
}

TEST_F(UndoTest, HowRunsAreSortedAndHowLargeMapsAreIsTakenBackAndKept) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  auto* const table = Find<QTableView>("runsTable");
  const QHeaderView* const header = table->horizontalHeader();
  const int usual = header->sortIndicatorSection();
  ASSERT_NE(usual, ui::RunsModel::kMethod);
  table->sortByColumn(ui::RunsModel::kMethod, Qt::AscendingOrder);
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_EQ(header->sortIndicatorSection(), usual);
  ASSERT_NO_FATAL_FAILURE(Redo());
  EXPECT_EQ(header->sortIndicatorSection(), ui::RunsModel::kMethod);
  EXPECT_EQ(header->sortIndicatorOrder(), Qt::AscendingOrder);
  ASSERT_NO_FATAL_FAILURE(Pause());
  Raise("mapsDock");
  auto* maps = window_->findChild<ui::MapsView*>();
  ASSERT_NE(maps, nullptr);
  const QRect fitted = maps->RectOf({1, 3});
  QTest::keyClick(maps, Qt::Key_Minus);
  const QRect smaller = maps->RectOf({1, 3});
  ASSERT_LT(smaller.width(), fitted.width());
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_EQ(maps->RectOf({1, 3}), fitted);
  ASSERT_NO_FATAL_FAILURE(Redo());
  EXPECT_EQ(maps->RectOf({1, 3}), smaller);
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(Find<QTableView>("runsTable")->horizontalHeader()->sortIndicatorSection(), ui::RunsModel::kMethod);
  Raise("mapsDock");
  EXPECT_EQ(window_->findChild<ui::MapsView*>()->RectOf({1, 3}).width(), smaller.width());
}

TEST_F(UndoTest, ASwapOfTheMapsIsOneStep) {
  Open({0, 1});
  ASSERT_NO_FATAL_FAILURE(Use("a-shape", "n_sink=4,n_local=64"));
  window_->commands()[Command::kSplit]->trigger();
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_NO_FATAL_FAILURE(Use("block-sparse", "n_blocks=2"));
  window_->store()->Select({0, 2});
  ASSERT_TRUE(WaitForCanvas());
  const ui::MethodTrial& first = window_->state()->trial;
  const ui::MethodTrial& second = window_->state()->references.front();
  const auto is_swapped = [&](bool swapped) {
    EXPECT_EQ(first.method()->name, swapped ? "a-shape" : "block-sparse");
    EXPECT_EQ(second.method()->name, swapped ? "block-sparse" : "a-shape");
    EXPECT_EQ(window_->canvas()->head(), (swapped ? HeadId{0, 1} : HeadId{0, 2}));
    EXPECT_EQ(window_->second_canvas()->head(), (swapped ? HeadId{0, 2} : HeadId{0, 1}));
  };
  is_swapped(false);
  ASSERT_NO_FATAL_FAILURE(Pause());
  const int steps = window_->state()->parameters.stack()->count();
  window_->commands()[Command::kExchangeMaps]->trigger();
  ASSERT_TRUE(WaitForCanvas());
  is_swapped(true);
  EXPECT_EQ(window_->state()->parameters.stack()->count(), steps + 1);
  ASSERT_NO_FATAL_FAILURE(Undo());
  is_swapped(false);
  ASSERT_NO_FATAL_FAILURE(Redo());
  is_swapped(true);
  ASSERT_NO_FATAL_FAILURE(Undo());
  // And what was set before it.
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_EQ(first.method()->name, "a-shape");
}

TEST_F(UndoTest, AConfigurationIsTakenBackWithTheMethodThatItGaveTheHead) {
  Open({0, 1});
  ASSERT_NO_FATAL_FAILURE(Use("a-shape", "n_sink=4,n_local=64"));
  ASSERT_NO_FATAL_FAILURE(Pause());
  ui::HeadConfiguration& configuration = window_->state()->configuration;
  const ui::MethodTrial& trial = window_->state()->trial;
  const int steps = window_->state()->parameters.stack()->count();
  UseTwoHeads();
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(trial.method()->name, "block-sparse");
  EXPECT_EQ(window_->state()->parameters.stack()->count(), steps + 1) << "configuration and method are one step";
  // To go to a head is to set nothing, though its method comes with it.
  window_->store()->Select({0, 2});
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(trial.method()->name, "dense");
  EXPECT_EQ(window_->state()->parameters.stack()->count(), steps + 1);
  window_->store()->Select({0, 1});
  ASSERT_TRUE(WaitForCanvas());
  window_->commands()[Command::kConfiguration]->trigger();
  EXPECT_FALSE(configuration.in_use());
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_TRUE(configuration.in_use());
  EXPECT_EQ(configuration.title(), QStringLiteral("two heads"));
  EXPECT_EQ(configuration.num_heads(), 2U);
  EXPECT_EQ(trial.method()->name, "block-sparse");
  EXPECT_TRUE(window_->commands()[Command::kConfiguration]->isChecked());
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_FALSE(configuration.in_use());
  EXPECT_EQ(trial.method()->name, "a-shape");
  EXPECT_EQ(trial.values().Integer("n_local"), 64);
  ASSERT_NO_FATAL_FAILURE(Redo());
  EXPECT_TRUE(configuration.in_use());
  EXPECT_EQ(trial.method()->name, "block-sparse");
  ASSERT_NO_FATAL_FAILURE(Redo());
  EXPECT_FALSE(configuration.in_use());
  EXPECT_FALSE(window_->state()->parameters.stack()->canRedo());
}

// Head 0:1 had block-sparse when the step was made, and 0:2 is on show when it is made again.
TEST_F(UndoTest, AConfigurationGivesAnotherHeadItsOwnMethodWhenItIsSetAgain) {
  Open({0, 1});
  ASSERT_NO_FATAL_FAILURE(Use("a-shape", "n_sink=4,n_local=64"));
  ASSERT_NO_FATAL_FAILURE(Pause());
  ui::HeadConfiguration& configuration = window_->state()->configuration;
  const ui::MethodTrial& trial = window_->state()->trial;
  UseTwoHeads();
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_NO_FATAL_FAILURE(Undo());
  window_->store()->Select({0, 2});
  ASSERT_TRUE(WaitForCanvas());
  const int steps = window_->state()->parameters.stack()->count();
  ASSERT_NO_FATAL_FAILURE(Redo());
  EXPECT_EQ(trial.method()->name, "dense");
  window_->store()->Select({0, 1});
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(trial.method()->name, "block-sparse");
  // What was set on a head beside its own method comes back with the configuration, on that head.
  ASSERT_NO_FATAL_FAILURE(Pause());
  ASSERT_NO_FATAL_FAILURE(Use("block-sparse", "n_blocks=3"));
  ASSERT_NO_FATAL_FAILURE(Pause());
  window_->commands()[Command::kConfiguration]->trigger();
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_NO_FATAL_FAILURE(Use("a-shape", "n_sink=4,n_local=32"));
  ASSERT_NO_FATAL_FAILURE(Undo());
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_TRUE(configuration.in_use());
  EXPECT_EQ(trial.method()->name, "block-sparse");
  EXPECT_EQ(trial.values().Integer("n_blocks"), 3);
  EXPECT_EQ(window_->state()->parameters.stack()->count(), steps + 3) << "nothing else was a step";
}

TEST_F(UndoTest, PanesThatWereResetAndTheMemoryOfTheCachesComeBack) {
  Open();
  auto* dock = Find<QDockWidget>("matrixDock");
  dock->hide();
  window_->commands()[Command::kResetLayout]->trigger();
  EXPECT_TRUE(dock->isVisible());
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_FALSE(dock->isVisible());
  ASSERT_NO_FATAL_FAILURE(Redo());
  EXPECT_TRUE(dock->isVisible());
  window_->commands()[Command::kSettings]->trigger();
  auto* budget = Find<QSpinBox>("memoryBudget");
  const int usual = static_cast<int>(ui::MemoryBudget::DefaultBytes() >> 20);
  ASSERT_NE(usual, 300);
  // As a key that is held down.
  const int steps = window_->state()->parameters.stack()->count();
  for (const int mebibytes : {290, 295, 300}) budget->setValue(mebibytes);
  EXPECT_EQ(window_->state()->parameters.stack()->count(), steps + 1);
  budget->clearFocus();  // what is typed stays
  ASSERT_FALSE(budget->hasFocus());
  EXPECT_EQ(workbench_->memory().capacity(), int64_t{300} << 20);
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_EQ(workbench_->memory().capacity(), ui::MemoryBudget::DefaultBytes());
  EXPECT_EQ(budget->value(), usual);
  ASSERT_NO_FATAL_FAILURE(Redo());
  EXPECT_EQ(workbench_->memory().capacity(), int64_t{300} << 20);
  EXPECT_EQ(budget->value(), 300);
}

TEST_F(UndoTest, ThePanelThatWasResetWithThePanesComesBack) {
  Open();
  const auto panel = [&] { return canvas_->PanelControl(QStringLiteral("panel")); };
  const auto is_at = [&](QRectF place) { return WaitFor([&] { return WaitForCanvas() && panel() == place; }); };
  const auto drag = [&](QPointF from, QPointF to) {
    const auto move = [&](QPointF at, Qt::MouseButtons held) {
      QMouseEvent event(QEvent::MouseMove, at, canvas_->mapToGlobal(at), Qt::NoButton, held, Qt::NoModifier);
      QApplication::sendEvent(canvas_, &event);
    };
    move(from, Qt::NoButton);
    QTest::mousePress(canvas_, Qt::LeftButton, {}, from.toPoint());
    EXPECT_TRUE(WaitForCanvas());
    move(to, Qt::LeftButton);
    EXPECT_TRUE(WaitForCanvas());
    QTest::mouseRelease(canvas_, Qt::LeftButton, {}, to.toPoint());
    EXPECT_TRUE(WaitForCanvas());
  };
  ASSERT_TRUE(WaitForStatistics());
  ASSERT_TRUE(WaitForCanvas());
  const QRectF first = panel();
  const QPointF title(first.center().x(), first.top() + 8);
  drag(title, title + QPointF(-200, 60));
  const QRectF moved = panel();
  ASSERT_NE(moved.topLeft(), first.topLeft());
  const auto stands = [&](QPointF at) { return WaitFor([&] { return WaitForCanvas() && panel().topLeft() == at; }); };
  // Beside the map it takes room from it, and so its height may be another one.
  const int steps = window_->state()->parameters.stack()->count();
  window_->commands()[Command::kResetLayout]->trigger();
  EXPECT_TRUE(stands(first.topLeft()));
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_TRUE(stands(moved.topLeft()));
  ASSERT_NO_FATAL_FAILURE(Redo());
  EXPECT_TRUE(stands(first.topLeft()));
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_TRUE(stands(moved.topLeft()));
  EXPECT_EQ(window_->state()->parameters.stack()->count(), steps + 1);
  // Rolled up where it was moved to.
  const QPointF arrow = canvas_->PanelControl(QStringLiteral("roll")).center();
  QTest::mouseClick(canvas_, Qt::LeftButton, {}, arrow.toPoint());
  ASSERT_TRUE(WaitFor([&] { return WaitForCanvas() && panel().height() < 30; }));
  const QRectF rolled = panel();
  window_->commands()[Command::kResetLayout]->trigger();
  EXPECT_TRUE(WaitFor([&] { return WaitForCanvas() && panel().height() > 30; }));
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_TRUE(is_at(rolled));
  // Hidden, which is a step of its own; that it is shown again is none.
  ASSERT_NO_FATAL_FAILURE(Pause());
  const int before = window_->state()->parameters.stack()->index();
  window_->commands()[Command::kPanel]->trigger();
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_FALSE(canvas_->panel_visible());
  ASSERT_NO_FATAL_FAILURE(Pause());
  EXPECT_EQ(window_->state()->parameters.stack()->index(), before + 1);
  window_->commands()[Command::kResetLayout]->trigger();
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_TRUE(canvas_->panel_visible());
  EXPECT_EQ(window_->state()->parameters.stack()->index(), before + 2);
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_FALSE(canvas_->panel_visible());
  EXPECT_TRUE(window_->state()->parameters.stack()->canRedo());
  ASSERT_NO_FATAL_FAILURE(Undo());
  EXPECT_TRUE(canvas_->panel_visible());
  EXPECT_TRUE(is_at(rolled));
}

}  // namespace
}  // namespace headscope::gui_test
