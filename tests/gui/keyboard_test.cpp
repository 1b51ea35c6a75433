// SPDX-License-Identifier: Apache-2.0
// The window without a mouse, and what stays from one file to the next.
#include <QAction>
#include <QDialog>
#include <QDialogButtonBox>
#include <QDockWidget>
#include <QKeySequence>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMenuBar>
#include <QSet>
#include <QSignalSpy>
#include <QTableView>
#include <QTextBrowser>
#include <QToolBar>
#include <QToolButton>
#include <QTreeWidget>
#include <map>

#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

class KeyboardTest : public ShellTest {
 protected:
  KeyboardTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
  }
};

TEST_F(KeyboardTest, TabReachesEveryPaneAndComesRound) {
  Open();
  auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  matrix->setFocus();
  QSet<QString> reached;
  bool round = false;
  for (int press = 0; press < 100 && !round; ++press) {
    QWidget* focus = window_->focusWidget();
    ASSERT_NE(focus, nullptr);
    reached.insert(focus->objectName());
    QTest::keyClick(focus, Qt::Key_Tab);
    round = window_->focusWidget() == matrix;
  }
  EXPECT_TRUE(round) << "Tab is caught by " << window_->focusWidget()->objectName().toStdString();
  for (const char* pane : {"headMatrix", "headFilter", "headTable", "canvas", "runsTable", "metricBox", "colorBox"})
    EXPECT_TRUE(reached.contains(QLatin1String(pane))) << pane;
}

// Up to a hundred presses of Tab led to some places.
TEST_F(KeyboardTest, F6WalksThePanesInSightAndBack) {
  Open();
  const auto pane = [&]() -> QString {
    QWidget* const focus = window_->focusWidget();
    if (focus == window_->canvas()) return QStringLiteral("map");
    for (QDockWidget* dock : window_->findChildren<QDockWidget*>()) {
      if (dock->isAncestorOf(focus)) return dock->objectName();
    }
    return {};
  };
  window_->canvas()->setFocus();
  QStringList there, back;
  for (int press = 0; press < 10; ++press) {
    QTest::keyClick(window_->focusWidget(), Qt::Key_F6);
    there.append(pane());
    if (there.constLast() == u"map") break;
  }
  ASSERT_EQ(there.constLast(), QStringLiteral("map")) << there.join(u' ').toStdString();
  EXPECT_GE(there.size(), 5);
  EXPECT_EQ(QSet<QString>(there.begin(), there.end()).size(), there.size()) << there.join(u' ').toStdString();
  for (const char* dock : {"matrixDock", "tableDock", "runsDock", "massDock"})
    EXPECT_TRUE(there.contains(QLatin1String(dock))) << dock;
  for (qsizetype press = 0; press < there.size(); ++press) {
    QTest::keyClick(window_->focusWidget(), Qt::Key_F6, Qt::ShiftModifier);
    back.prepend(pane());
  }
  there.prepend(there.takeLast());
  EXPECT_EQ(back, there);
}

TEST_F(KeyboardTest, TheToolBarsButtonsAreOneStopWithArrowsInside) {
  Open();
  auto* bar = Find<QToolBar>("toolBar");
  QList<QWidget*> stops;
  for (QToolButton* button : bar->findChildren<QToolButton*>()) {
    if (button->isVisible() && button->isEnabled() && (button->focusPolicy() & Qt::TabFocus) != 0) stops.append(button);
  }
  ASSERT_EQ(stops.size(), 1);
  stops.front()->setFocus();
  QTest::keyClick(stops.front(), Qt::Key_Home);
  QWidget* const first = window_->focusWidget();
  QTest::keyClick(first, Qt::Key_Right);
  QWidget* const second = window_->focusWidget();
  EXPECT_TRUE(second != first && bar->isAncestorOf(second) && second->isEnabled());
  EXPECT_GT(second->x(), first->x());
  QTest::keyClick(second, Qt::Key_End);
  EXPECT_GT(window_->focusWidget()->x(), second->x());
  QTest::keyClick(window_->focusWidget(), Qt::Key_Home);
  EXPECT_EQ(window_->focusWidget(), first);
  QTest::keyClick(first, Qt::Key_Left);
  EXPECT_EQ(window_->focusWidget(), first) << "the end";
}

// A narrow bar has no room for all of its buttons; Tab stopped at one that was not there.
TEST_F(KeyboardTest, TabStopsAtAButtonThatTheBarHasRoomFor) {
  Open();
  auto* bar = Find<QToolBar>("toolBar");
  const auto stops = [&] {
    QList<QToolButton*> found;
    for (QToolButton* button : bar->findChildren<QToolButton*>()) {
      if ((button->focusPolicy() & Qt::TabFocus) != 0 && bar->actions().contains(button->defaultAction()))
        found.append(button);
    }
    return found;
  };
  ASSERT_EQ(stops().size(), 1);
  stops().front()->setFocus();
  QTest::keyClick(stops().front(), Qt::Key_End);
  ASSERT_EQ(stops().size(), 1);
  QToolButton* const last = stops().front();
  window_->canvas()->setFocus();
  window_->resize(700, 700);
  ASSERT_TRUE(WaitFor([&] { return last->isHidden(); })) << "it is in the bar's menu";
  ASSERT_EQ(stops().size(), 1);
  EXPECT_TRUE(stops().front()->isVisible());
  EXPECT_NE(stops().front(), last);
}

TEST_F(KeyboardTest, EveryShortcutIsListedAndNoneIsTakenTwice) {
  Open();
  QTest::keyClick(window_.get(), Qt::Key_Question);
  auto* dialog = Find<QDialog>("keysDialog");
  const QString text = dialog->findChild<QTextBrowser*>()->toPlainText();
  QSet<QString> taken;
  for (const ui::CommandSpec& spec : ui::CommandTable()) {
    for (const QKeySequence& keys : window_->commands()[spec.command]->shortcuts()) {
      ASSERT_FALSE(keys.isEmpty()) << spec.id << ": \"" << spec.shortcut << "\" is not understood";
      const QString shown = keys.toString(QKeySequence::NativeText);
      EXPECT_TRUE(text.contains(shown)) << spec.id;
      EXPECT_FALSE(taken.contains(shown)) << shown.toStdString();
      taken.insert(shown);
    }
  }
  for (const char* keys : {"Ctrl+O", "Ctrl+R or F5", "Ctrl+Z", "Esc", "F6, Shift + F6", "Tab", "Arrows"})
    EXPECT_TRUE(text.contains(QLatin1String(keys))) << keys;
}

TEST_F(KeyboardTest, TheListOfKeysIsOrderedBySubjectAndFiltered) {
  Open();
  QTest::keyClick(window_.get(), Qt::Key_Question);
  auto* dialog = Find<QDialog>("keysDialog");
  const auto text = [dialog] { return dialog->findChild<QTextBrowser*>()->toPlainText(); };
  const QString all = text();
  for (const char* title : {"Map", "Method panel", "Panes", "File", "Edit", "Methods", "Go to a pane"})
    EXPECT_TRUE(all.contains(QLatin1String(title) + u'\n')) << title;
  EXPECT_TRUE(all.contains(QStringLiteral("Alt+2"))) << "panes have keys, too";
  auto* filter = Find<QLineEdit>("keysFilter");
  EXPECT_EQ(dialog->focusWidget(), filter) << "typing filters";
  filter->setText(QStringLiteral("target meth"));
  EXPECT_TRUE(text().contains(QStringLiteral("Ctrl+T")));
  EXPECT_FALSE(text().contains(QStringLiteral("Wheel")));
  filter->setText(QStringLiteral("nothing of the kind"));
  EXPECT_EQ(text(), QStringLiteral("Nothing has all of these words."));
  QTest::keyClick(dialog, Qt::Key_Escape);
  EXPECT_FALSE(dialog->isVisible());
}

TEST_F(KeyboardTest, F5RunsTheMethodOfThePanel) {
  Open();
  QSignalSpy requested(window_->canvas(), &ui::HeadCanvas::RunRequested);
  QTest::keyClick(window_.get(), Qt::Key_F5);
  EXPECT_EQ(requested.size(), 1);
  auto* table = Find<QTableView>("runsTable");
  EXPECT_TRUE(WaitFor([&] { return table->model()->rowCount() == 2; }));
}

TEST_F(KeyboardTest, TheListOfMethodsOpensWhereverTheFocusIs) {
  Open();
  ui::HeadCanvas* canvas = window_->canvas();
  const QString before = canvas->method();
  canvas->SetPanelVisible(false);
  auto* table = Find<QTableView>("headTable");
  table->setFocus();
  QTest::keyClick(table, Qt::Key_M, Qt::ControlModifier | Qt::ShiftModifier);
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_TRUE(window_->commands()[Command::kPanel]->isChecked()) << "the menu follows what the key has shown";
  ASSERT_FALSE(canvas->PanelControl(QStringLiteral("method:a-shape")).isNull());
  EXPECT_TRUE(canvas->hasFocus());
  QTest::keyClick(canvas, Qt::Key_Home);
  QTest::keyClick(canvas, Qt::Key_Return);
  EXPECT_TRUE(WaitFor([&] { return canvas->method() != before; })) << before.toStdString();
  EXPECT_EQ(canvas->method(), QStringLiteral("dense"));
}

TEST_F(KeyboardTest, EscapeClosesTheFindBarThenTheNotice) {
  Open();
  window_->OpenPath(File(QStringLiteral("missing.h5")));
  auto* notice = Find<QFrame>("notice");
  ASSERT_TRUE(WaitFor([&] { return notice->isVisible(); }));
  QTest::keyClick(window_.get(), Qt::Key_F, Qt::ControlModifier);
  auto* input = Find<QLineEdit>("findInput");
  ASSERT_TRUE(input->isVisible());
  window_->canvas()->setFocus();
  QTest::keyClick(window_->canvas(), Qt::Key_Escape);
  EXPECT_FALSE(input->isVisible());
  EXPECT_TRUE(notice->isVisible());
  QTest::keyClick(window_->canvas(), Qt::Key_Escape);
  EXPECT_FALSE(notice->isVisible());
}

// It went to the matrix, where the next arrow opened another head.
TEST_F(KeyboardTest, TheFindBarGivesTheKeyboardBack) {
  Open();
  auto* input = Find<QLineEdit>("findInput");
  window_->canvas()->setFocus();
  for (const ui::Command command : {ui::Command::kFindToken, ui::Command::kGoTo}) {
    window_->commands()[command]->trigger();
    ASSERT_EQ(window_->focusWidget(), input);
    QTest::keyClick(input, Qt::Key_Escape);
    EXPECT_FALSE(input->isVisible());
    EXPECT_EQ(window_->focusWidget(), window_->canvas());
  }
  window_->commands()[ui::Command::kGoTo]->trigger();
  input->setText(QStringLiteral("40, 3"));
  QTest::keyClick(input, Qt::Key_Return);
  EXPECT_FALSE(input->isVisible());
  EXPECT_EQ(window_->focusWidget(), window_->canvas());
}

// It went to the map that had it when the bar was opened first.
TEST_F(KeyboardTest, AskedForAgainTheFindBarGivesTheKeyboardToWhatHadItLast) {
  Open();
  auto* input = Find<QLineEdit>("findInput");
  window_->ActionNamed(QStringLiteral("go-infoDock"))->trigger();
  QTest::qWait(50);
  QWidget* const pane = Find<QTreeWidget>("traceInfo");
  window_->canvas()->setFocus();
  window_->commands()[ui::Command::kFindToken]->trigger();
  ASSERT_EQ(window_->focusWidget(), input);
  pane->setFocus();
  ASSERT_TRUE(input->isVisible());
  // And once more from the bar itself.
  for (int i = 0; i < 2; ++i) {
    window_->commands()[ui::Command::kFindToken]->trigger();
    ASSERT_EQ(window_->focusWidget(), input);
  }
  QTest::keyClick(input, Qt::Key_Escape);
  EXPECT_FALSE(input->isVisible());
  EXPECT_EQ(window_->focusWidget(), pane);
}

TEST_F(KeyboardTest, ZoomByPlusAndMinusAndHeadsByCommaAndPeriodFromTheMap) {
  Open();
  ui::HeadCanvas* canvas = window_->canvas();
  const auto scale = [&] {
    return canvas->ViewState()[QStringLiteral("view")].toObject()[QStringLiteral("scores_per_pixel")].toDouble();
  };
  canvas->setFocus();
  const double fitted = scale();
  QTest::keyClick(canvas, Qt::Key_Plus);
  QTest::keyClick(canvas, Qt::Key_Plus);
  EXPECT_NEAR(scale(), fitted / 2.25, fitted * 1e-9);
  QTest::keyClick(canvas, Qt::Key_Minus);
  EXPECT_NEAR(scale(), fitted / 1.5, fitted * 1e-9);
  QTest::keyClick(canvas, Qt::Key_Period);
  EXPECT_EQ(canvas->head(), (HeadId{0, 1}));
  QTest::keyClick(canvas, Qt::Key_Comma);
  EXPECT_EQ(canvas->head(), (HeadId{0, 0}));
}

TEST_F(KeyboardTest, RecentFilesOpenAgainLatestFirst) {
  Open();
  const QString other = File(QStringLiteral("other.h5"));
  ASSERT_TRUE(QFile::copy(trace_path(), other));
  AnswerFileDialog(other);
  QTest::keyClick(window_.get(), Qt::Key_O, Qt::ControlModifier);
  const auto shown = [&] { return QString::fromStdString(window_->store()->trace().path); };
  ASSERT_TRUE(WaitFor([&] { return shown() == other; })) << Find<QLabel>("noticeText")->text().toStdString();
  QMenu* recent = nullptr;
  for (QMenu* menu : window_->findChildren<QMenu*>()) {
    if (menu->title().contains(QStringLiteral("recent"))) recent = menu;
  }
  ASSERT_NE(recent, nullptr);
  ASSERT_EQ(recent->actions().size(), 2);
  EXPECT_EQ(recent->actions()[0]->text(), other);
  recent->actions()[1]->trigger();
  ASSERT_TRUE(WaitFor([&] { return shown() == trace_path(); }));
  EXPECT_EQ(recent->actions()[0]->text(), trace_path());
}

// Tab went to a field's Browse button first, and then back to the field.
TEST_F(KeyboardTest, TabGoesThroughADialogAsItIsRead) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  for (const Command command : {Command::kCapture, Command::kTuneDialog, Command::kClasses, Command::kSettings}) {
    window_->commands()[command]->trigger();
    QDialog* dialog = nullptr;
    ASSERT_TRUE(WaitFor([&] {
      for (QDialog* one : window_->findChildren<QDialog*>()) dialog = one->isVisible() ? one : dialog;
      return dialog != nullptr;
    }));
    ASSERT_TRUE(QTest::qWaitForWindowExposed(dialog));
    QList<QWidget*> stops;
    for (QWidget* at = dialog->nextInFocusChain(); at != dialog; at = at->nextInFocusChain()) {
      if (at->window() == dialog && at->isVisible() && at->isEnabled() && (at->focusPolicy() & Qt::TabFocus) != 0 &&
          at->focusProxy() == nullptr)
        stops.append(at);
    }
    ASSERT_GT(stops.size(), 1);
    for (qsizetype i = 1; i < stops.size(); ++i) {
      const auto place = [&](const QWidget* of) { return QRect(of->mapTo(dialog, QPoint()), of->size()); };
      const QRect before = place(stops[i - 1]), now = place(stops[i]);
      const bool goes_up = now.bottom() < before.top();
      const bool goes_left =
          now.right() < before.left() && now.top() <= before.bottom() && now.bottom() >= before.top();
      // In the row of buttons below a dialog, which the style arranges.
      const bool is_in_row = qobject_cast<QDialogButtonBox*>(stops[i]->parentWidget()) != nullptr &&
                             stops[i]->parentWidget() == stops[i - 1]->parentWidget();
      EXPECT_FALSE(goes_up || (goes_left && !is_in_row))
          << dialog->objectName().toStdString() << ": from " << stops[i - 1]->objectName().toStdString() << " to "
          << stops[i]->objectName().toStdString();
    }
    dialog->close();
  }
}

// Of two with the same letter, Alt and the letter chose neither, but went from one to the other.
TEST_F(KeyboardTest, ALetterChoosesOneEntryOfAMenu) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  int letters = 0;
  for (const QAction* of_bar : window_->menuBar()->actions()) {
    std::map<QChar, QString> taken;
    for (const QAction* entry : of_bar->menu()->actions()) {
      const QKeySequence key = QKeySequence::mnemonic(entry->text());
      if (key.isEmpty()) continue;
      const auto [at, is_new] = taken.emplace(key.toString().back(), entry->text());
      EXPECT_TRUE(is_new) << at->second.toStdString() << " and " << entry->text().toStdString();
      ++letters;
    }
  }
  EXPECT_GT(letters, 60);
}

}  // namespace
}  // namespace headscope::gui_test
