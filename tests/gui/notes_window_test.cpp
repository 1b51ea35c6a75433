// SPDX-License-Identifier: Apache-2.0
// Bookmarks, tags and the log as a person works with them, and undo of what is set in the view.
#include <signal.h>

#include <QAction>
#include <QClipboard>
#include <QDockWidget>
#include <QInputDialog>
#include <QJsonArray>
#include <QLineEdit>
#include <QProcess>
#include <QPushButton>
#include <QTableView>
#include <QUndoStack>

#include "shell_fixture.h"
#include "state_file.h"
#include "trace_keeper.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

class NotesWindowTest : public ShellTest {
 protected:
  NotesWindowTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
  }
  QJsonArray NotesInFile() const {
    return ui::ReadStateFile(ui::TraceKeeper::FileBeside(trace_path()), 1 << 26)[QStringLiteral("notes")].toArray();
  }
  ui::TraceNotes& notes() { return window_->state()->notes; }
};

TEST_F(NotesWindowTest, ABookmarkIsMadeNamedFoundAndGoneToByKeys) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->store()->Select({1, 2});
  ASSERT_TRUE(WaitForCanvas());
  window_->canvas()->ZoomTo(300, 340, 200, 240);
  ASSERT_TRUE(WaitForCanvas());
  const ui::HeadCanvas::Part part = window_->canvas()->VisiblePart();
  Press(Qt::Key_B, Qt::ControlModifier);
  ASSERT_EQ(notes().rowCount(), 1);
  auto* table = Find<QTableView>("notesTable");
  QLineEdit* editor = nullptr;
  ASSERT_TRUE(WaitFor([&] { return (editor = table->viewport()->findChild<QLineEdit*>()) != nullptr; }))
      << "its note is asked for at once";
  QTest::keyClicks(editor, QStringLiteral("needle"));
  QTest::keyClick(editor, Qt::Key_Return);
  ASSERT_TRUE(WaitFor([&] { return notes().notes()[0].text == u"needle"; }));
  EXPECT_EQ(notes().notes()[0].head, (HeadId{1, 2}));
  EXPECT_EQ(notes().notes()[0].row_begin, part.row_begin);
  // Elsewhere, and back.
  window_->store()->Select({0, 0});
  window_->canvas()->FitView();
  ASSERT_TRUE(WaitForCanvas());
  Press(Qt::Key_1, Qt::ControlModifier);
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(window_->canvas()->head(), (HeadId{1, 2}));
  const ui::HeadCanvas::Part back = window_->canvas()->VisiblePart();
  EXPECT_LE(std::abs(back.row_begin - part.row_begin), 2);
  EXPECT_LE(std::abs(back.column_end - part.column_end), 2);
  // The palette knows it by its note.
  window_->store()->Select({0, 0});
  Press(Qt::Key_P, Qt::ControlModifier | Qt::ShiftModifier);
  auto* input = Find<QLineEdit>("paletteInput");
  input->setText(QStringLiteral("needle"));
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_EQ(window_->canvas()->head(), (HeadId{1, 2}));
  // Delete, and undo.
  table->setFocus();
  table->selectRow(0);
  QTest::keyClick(table, Qt::Key_Delete);
  EXPECT_EQ(notes().rowCount(), 0);
  Press(Qt::Key_Z, Qt::ControlModifier);
  EXPECT_EQ(notes().rowCount(), 1);
}

TEST_F(NotesWindowTest, NotesComeBackWithTheirTrace) {
  ASSERT_NO_FATAL_FAILURE(Open());
  notes().AddTag({1, 1}, QStringLiteral("induction"));
  notes().AddPlace({0, 3}, 5, 9, 0, 4, QStringLiteral("odd"));
  ASSERT_TRUE(WaitFor([&] { return NotesInFile().size() == 2; })) << "as they are made, and not at the end";
  const std::vector<ui::TraceNote> before = notes().notes();
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(notes().notes(), before);
  EXPECT_EQ(window_->store()->TagsOf({1, 1}), QStringList(QStringLiteral("induction")));
  EXPECT_FALSE(window_->state()->parameters.stack()->canUndo()) << "reading them is no change";
  Find<QLineEdit>("headFilter")->setText(QStringLiteral("#induct"));
  EXPECT_EQ(Find<QTableView>("headTable")->model()->rowCount(), 1);
}

TEST_F(NotesWindowTest, ABookmarkOutlivesAKilledProgramBesideTheNotesOfThisWindow) {
  ASSERT_NO_FATAL_FAILURE(Open());
  notes().AddTag({0, 0}, QStringLiteral("mine"));
  QProcess process;
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  environment.insert(QStringLiteral("XDG_CONFIG_HOME"), File(QStringLiteral("config")));
  environment.insert(QStringLiteral("XDG_CACHE_HOME"), File(QStringLiteral("cache")));
  environment.insert(QStringLiteral("HEADSCOPE_COMMANDS"), QStringLiteral("bookmark"));
  process.setProcessEnvironment(environment);
  process.setProcessChannelMode(QProcess::ForwardedChannels);
  process.start(QStringLiteral(HEADSCOPE_PROGRAM), {trace_path()});
  ASSERT_TRUE(process.waitForStarted());
  ASSERT_TRUE(WaitFor([&] { return NotesInFile().size() == 2; }, 60000));
  ASSERT_EQ(process.state(), QProcess::Running);
  ::kill(static_cast<pid_t>(process.processId()), SIGKILL);
  process.waitForFinished();
  ASSERT_NO_FATAL_FAILURE(Open());
  EXPECT_EQ(notes().rowCount(), 2);
}

TEST_F(NotesWindowTest, ButtonsOfThePaneSayWhyTheyAreDisabled) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->ActionNamed(QStringLiteral("go-notesDock"))->trigger();
  auto* remove = Find<QPushButton>("deleteNote");
  auto* tag = Find<QPushButton>("addTag");
  EXPECT_FALSE(remove->isEnabled());
  EXPECT_TRUE(remove->toolTip().contains(QStringLiteral("no note is selected"))) << remove->toolTip().toStdString();
  EXPECT_FALSE(tag->isEnabled());
  Find<QLineEdit>("tagInput")->setText(QStringLiteral("x"));
  EXPECT_TRUE(tag->isEnabled());
  QTest::mouseClick(tag, Qt::LeftButton);
  EXPECT_EQ(window_->store()->TagsOf({0, 0}), QStringList(QStringLiteral("x")));
  Find<QTableView>("notesTable")->selectRow(0);
  EXPECT_TRUE(remove->isEnabled());
  EXPECT_FALSE(remove->toolTip().contains(QStringLiteral("Unavailable")));
}

TEST_F(NotesWindowTest, TheLogKeepsWhatWasSaid) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->OpenPath(File(QStringLiteral("missing.h5")));
  auto& log = window_->state()->log;
  ASSERT_TRUE(WaitFor([&] { return log.rowCount() > 0; }));
  const int last = log.rowCount() - 1;
  EXPECT_TRUE(log.index(last, ui::NoticeLog::kText).data().toString().contains(QStringLiteral("missing.h5")));
  window_->ActionNamed(QStringLiteral("go-logDock"))->trigger();
  QTest::mouseClick(Find<QPushButton>("logCopy"), Qt::LeftButton);
  EXPECT_TRUE(QApplication::clipboard()->text().contains(QStringLiteral("  error  ")));
  QTest::mouseClick(Find<QPushButton>("logClear"), Qt::LeftButton);
  EXPECT_EQ(log.rowCount(), 0);
  EXPECT_FALSE(Find<QPushButton>("logCopy")->isEnabled());
}

TEST_F(NotesWindowTest, WhatIsSetInTheViewIsTakenBackStepByStep) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_TRUE(WaitForStatistics());
  const QString colors = window_->canvas()->color_map();
  const std::string metric = window_->store()->metric();
  Find<QAction>("log-scale")->trigger();
  ASSERT_TRUE(WaitForCanvas());
  QTest::qWait(ui::SettingHistory::kOneChangeMs);
  window_->canvas()->SetColorMap(QStringLiteral("magma"));
  ASSERT_TRUE(WaitForCanvas());
  window_->store()->SetMetric("kurtosis");
  Find<QLineEdit>("headFilter")->setText(QStringLiteral("1:"));
  window_->ActionNamed(QStringLiteral("theme-dark"))->trigger();
  const auto undo = [&] {
    Press(Qt::Key_Z, Qt::ControlModifier);
    ASSERT_TRUE(WaitForCanvas());
  };
  undo();
  EXPECT_EQ(window_->theme()->name(), QStringLiteral("system"));
  EXPECT_TRUE(window_->ActionNamed(QStringLiteral("theme-system"))->isChecked());
  undo();
  EXPECT_EQ(Find<QLineEdit>("headFilter")->text(), QString());
  undo();
  EXPECT_EQ(window_->store()->metric(), metric);
  EXPECT_EQ(window_->canvas()->color_map(), QStringLiteral("magma"));
  undo();
  EXPECT_EQ(window_->canvas()->color_map(), colors);
  EXPECT_EQ(window_->canvas()->scale(), ui::ColorScale::kLinear);
  undo();
  EXPECT_EQ(window_->canvas()->scale(), ui::ColorScale::kLogarithmic);
  EXPECT_FALSE(window_->state()->parameters.stack()->canUndo());
  Press(Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(window_->canvas()->scale(), ui::ColorScale::kLinear);
}

TEST_F(NotesWindowTest, ABookmarkHasAPinOnTheMapThatGoesThere) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->store()->Select({0, 1});
  window_->canvas()->SetPanelVisible(false);
  const QString id = notes().AddPlace({0, 1}, 300, 340, 200, 240, QStringLiteral("needle"));
  ASSERT_TRUE(WaitForCanvas());
  const QRectF pin = window_->canvas()->PinOf(id);
  ASSERT_FALSE(pin.isNull());
  EXPECT_TRUE(window_->canvas()->MapRect().contains(pin));
  const QPoint at = pin.center().toPoint();
  QTest::mouseMove(window_->canvas(), at);
  ASSERT_TRUE(WaitForCanvas());
  QTest::mouseClick(window_->canvas(), Qt::LeftButton, {}, at);
  ASSERT_TRUE(WaitFor([&] { return window_->canvas()->VisiblePart().row_begin >= 250; })) << "the click goes there";
  const ui::HeadCanvas::Part part = window_->canvas()->VisiblePart();
  EXPECT_LE(part.row_begin, 300);
  EXPECT_GE(part.row_end, 340);
  // On another head there is none, and none is left of a bookmark that is deleted.
  window_->canvas()->FitView();
  window_->store()->Select({0, 0});
  EXPECT_TRUE(window_->canvas()->PinOf(id).isNull());
  window_->store()->Select({0, 1});
  EXPECT_FALSE(window_->canvas()->PinOf(id).isNull());
  notes().Remove({0});
  EXPECT_TRUE(window_->canvas()->PinOf(id).isNull());
}

TEST_F(NotesWindowTest, ZoomRangeMarkedQueriesAndComparisonsAreTakenBack) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ui::HeadCanvas* const canvas = window_->canvas();
  const auto pause = [&] {
    ASSERT_TRUE(WaitForCanvas());
    QTest::qWait(ui::SettingHistory::kOneChangeMs + 50);
  };
  const auto undo = [&] {
    Press(Qt::Key_Z, Qt::ControlModifier);
    ASSERT_TRUE(WaitForCanvas());
  };
  const auto redo = [&] {
    Press(Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
    ASSERT_TRUE(WaitForCanvas());
  };
  ASSERT_NO_FATAL_FAILURE(pause());
  const analysis::ValueRange range = canvas->range();
  const double scale = canvas->ScoresPerPixel();
  canvas->ZoomTo(300, 340, 200, 240);
  ASSERT_NO_FATAL_FAILURE(pause());
  const double zoomed = canvas->ScoresPerPixel();
  ASSERT_NE(zoomed, scale);
  canvas->FitRange();
  ASSERT_NE(canvas->range(), range);
  const analysis::ValueRange fitted = canvas->range();
  ASSERT_NO_FATAL_FAILURE(pause());
  window_->state()->trial.SetBrush(std::pair{0.0, 0.5});
  ASSERT_NO_FATAL_FAILURE(pause());
  window_->ActionNamed(QStringLiteral("split"))->trigger();
  ASSERT_NO_FATAL_FAILURE(pause());
  window_->ActionNamed(QStringLiteral("map-difference"))->trigger();
  ASSERT_NO_FATAL_FAILURE(pause());
  // One by one, the last first.
  undo();
  EXPECT_FALSE(window_->ActionNamed(QStringLiteral("map-difference"))->isChecked());
  ASSERT_NE(window_->second_canvas(), nullptr);
  undo();
  EXPECT_EQ(window_->second_canvas(), nullptr);
  EXPECT_FALSE(window_->ActionNamed(QStringLiteral("split"))->isChecked());
  EXPECT_TRUE(window_->state()->trial.brush());
  undo();
  EXPECT_FALSE(window_->state()->trial.brush());
  EXPECT_EQ(canvas->range(), fitted);
  undo();
  EXPECT_EQ(canvas->range(), range);
  EXPECT_EQ(canvas->ScoresPerPixel(), zoomed);
  undo();
  EXPECT_NEAR(canvas->ScoresPerPixel(), scale, 1e-6);
  EXPECT_FALSE(window_->state()->parameters.stack()->canUndo());
  for (int step = 0; step < 5; ++step) redo();
  EXPECT_NEAR(canvas->ScoresPerPixel(), zoomed, 1e-6);
  EXPECT_EQ(canvas->range(), fitted);
  EXPECT_TRUE(window_->state()->trial.brush());
  ASSERT_NE(window_->second_canvas(), nullptr);
  EXPECT_TRUE(window_->ActionNamed(QStringLiteral("map-difference"))->isChecked());
  EXPECT_FALSE(window_->state()->parameters.stack()->canRedo());
}

TEST_F(NotesWindowTest, ARangeThatFollowsTheScaleByItselfIsNoStep) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ui::HeadCanvas* const canvas = window_->canvas();
  const analysis::ValueRange range = canvas->range();
  Find<QAction>("mean")->trigger();
  ASSERT_TRUE(WaitForCanvas());
  Find<QAction>("log-scale")->trigger();
  ASSERT_TRUE(WaitFor([&] { return canvas->range() != range; })) << "means on a linear scale are small";
  ASSERT_TRUE(WaitForCanvas());
  auto* stack = window_->state()->parameters.stack();
  while (stack->canUndo()) {
    Press(Qt::Key_Z, Qt::ControlModifier);
    ASSERT_TRUE(WaitForCanvas());
    ASSERT_LE(stack->index(), 2);
  }
  EXPECT_EQ(canvas->range(), range);
  EXPECT_EQ(stack->count(), 2) << "scale and reduction";
}

TEST_F(NotesWindowTest, ANamedLayoutIsSavedRestoredAndDeleted) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto answer = [&](const QString& name) {
    QTimer::singleShot(100, window_.get(), [name] {
      auto* dialog = qobject_cast<QInputDialog*>(QApplication::activeModalWidget());
      ASSERT_NE(dialog, nullptr);
      dialog->setTextValue(name);
      dialog->accept();
    });
  };
  auto* runs = Find<QDockWidget>("runsDock");
  runs->hide();
  answer(QStringLiteral("Only maps & heads"));
  window_->commands()[Command::kSaveLayout]->trigger();
  window_->commands()[Command::kResetLayout]->trigger();
  ASSERT_FALSE(runs->isHidden());
  const auto named = [&](const char* beginning) -> QAction* {
    for (QAction* action : window_->findChildren<QAction*>()) {
      if (action->text() == QLatin1String(beginning) + QStringLiteral(" layout Only maps && heads")) return action;
    }
    return nullptr;
  };
  ASSERT_NE(named("Restore"), nullptr);
  named("Restore")->trigger();
  EXPECT_TRUE(runs->isHidden());
  Press(Qt::Key_Z, Qt::ControlModifier);
  EXPECT_FALSE(runs->isHidden());
  // Kept for the next start.
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NE(named("Restore"), nullptr);
  window_->commands()[Command::kLogScale]->trigger();
  named("Delete")->trigger();
  EXPECT_EQ(named("Restore"), nullptr);
  const QUndoStack* steps = window_->state()->parameters.stack();
  EXPECT_EQ(steps->text(steps->index() - 2), QStringLiteral("scale of the map"));
  Press(Qt::Key_Z, Qt::ControlModifier);
  EXPECT_NE(named("Restore"), nullptr);
}

TEST_F(NotesWindowTest, PanesGetTheirSharesBackWhenTheWindowGrowsAgain) {
  ASSERT_NO_FATAL_FAILURE(Open());
  QTest::qWait(300);
  std::map<QString, QSize> before;
  const auto docks = window_->findChildren<QDockWidget*>();
  for (const QDockWidget* dock : docks) {
    if (!dock->visibleRegion().isEmpty()) before[dock->objectName()] = dock->size();
  }
  ASSERT_GE(before.size(), 4u);
  const QSize size = window_->size();
  window_->resize(800, 600);
  QTest::qWait(400);
  window_->resize(size);
  ASSERT_TRUE(WaitFor([&] { return window_->size() == size; }));
  QTest::qWait(400);
  for (const auto& [name, was] : before) {
    const QSize is = Find<QDockWidget>(name.toLatin1().constData())->size();
    EXPECT_NEAR(is.width(), was.width(), 6) << name.toStdString();
    EXPECT_NEAR(is.height(), was.height(), 6) << name.toStdString();
  }
}

}  // namespace
}  // namespace headscope::gui_test
