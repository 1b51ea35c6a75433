// SPDX-License-Identifier: Apache-2.0
// Where the keyboard is: seen on the screen in light and in dark, and named for those who hear it.
#include <QAbstractScrollArea>
#include <QAccessible>
#include <QApplication>
#include <QComboBox>
#include <QDialog>
#include <QDockWidget>
#include <QPixmap>
#include <QPushButton>
#include <QScreen>
#include <algorithm>
#include <cstdlib>
#include <string>

#include "shell_fixture.h"
#include "welcome_page.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

bool IsInSight(const QWidget* widget) {
  const auto* const area = qobject_cast<const QAbstractScrollArea*>(widget);
  return widget->isVisible() && !(area != nullptr ? area->viewport() : widget)->visibleRegion().isEmpty();
}

// Where Tab stops in a window or a pane.
QList<QWidget*> StopsIn(const QWidget* root) {
  QList<QWidget*> stops;
  for (QWidget* widget : root->findChildren<QWidget*>()) {
    if (widget->window() == root->window() && widget->isEnabled() && (widget->focusPolicy() & Qt::TabFocus) != 0 &&
        widget->focusProxy() == nullptr && IsInSight(widget))
      stops.append(widget);
  }
  return stops;
}

// As a screen reader has it. On X11, Qt gives a box of choices what it shows for a name.
std::string SpokenName(QWidget* widget) {
  QAccessibleInterface* const spoken = QAccessible::queryAccessibleInterface(widget);
  if (spoken == nullptr) return {};
  if (qobject_cast<QComboBox*>(widget) != nullptr && widget->accessibleName().isEmpty() &&
      spoken->relations(QAccessible::Label).isEmpty())
    return {};
  return spoken->text(QAccessible::Name).simplified().toStdString();
}

std::string PlaceOf(const QWidget* widget) {
  QStringList names;
  for (const QWidget* at = widget; at != nullptr; at = at->parentWidget()) {
    if (at == widget || !at->objectName().isEmpty()) names.prepend(at->objectName());
    if (names.size() == 3) break;
  }
  return QStringLiteral("%1 (%2)")
      .arg(names.join(QStringLiteral(" > ")), QLatin1String(widget->metaObject()->className()))
      .toStdString();
}

class VisibleFocusTest : public ShellTest {
 protected:
  VisibleFocusTest() : ShellTest(0, KnownAtStart::kStatistics), cursor_flash_(QApplication::cursorFlashTime()) {
    QApplication::setCursorFlashTime(0);
  }
  ~VisibleFocusTest() override { QApplication::setCursorFlashTime(cursor_flash_); }

  // What the screen shows of a widget and a little around it.
  static QImage OnScreen(const QWidget* widget) {
    QTest::qWait(30);
    const QWidget* const window = widget->window();
    const QRect at = QRect(widget->mapTo(window, QPoint()), widget->size()).adjusted(-4, -4, 4, 4) & window->rect();
    return window->screen()->grabWindow(window->winId(), at.x(), at.y(), at.width(), at.height()).toImage();
  }
  // Pixels that look plainly different.
  static int Differing(const QImage& one, const QImage& other) {
    constexpr int kPlainly = 50;
    int differing = 0;
    for (int y = 0; y < std::min(one.height(), other.height()); ++y) {
      for (int x = 0; x < std::min(one.width(), other.width()); ++x) {
        const QColor a = one.pixelColor(x, y), b = other.pixelColor(x, y);
        const int sum = std::abs(a.red() - b.red()) + std::abs(a.green() - b.green()) + std::abs(a.blue() - b.blue());
        differing += sum >= kPlainly ? 1 : 0;
      }
    }
    return differing;
  }
  void Examine(const QWidget* root) {
    QWidget* const window = root->window();
    window->activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(window)) << PlaceOf(root);
    window->setAttribute(Qt::WA_KeyboardFocusChange);  // as Tab does: buttons show nothing to the mouse
    const QList<QWidget*> all = StopsIn(window);
    for (QWidget* stop : StopsIn(root)) {
      EXPECT_NE(SpokenName(stop), "") << PlaceOf(stop);
      const auto elsewhere = std::find_if(all.begin(), all.end(), [stop](const QWidget* one) {
        return one != stop && !stop->isAncestorOf(one) && !one->isAncestorOf(stop) && IsInSight(one);
      });
      if (elsewhere == all.end()) continue;
      (*elsewhere)->setFocus(Qt::TabFocusReason);
      const QImage without = OnScreen(stop);
      stop->setFocus(Qt::TabFocusReason);
      ASSERT_TRUE(stop->hasFocus()) << PlaceOf(stop);
      // A frame around it or its words.
      EXPECT_GE(Differing(without, OnScreen(stop)), std::min(2 * stop->width(), 80)) << PlaceOf(stop);
      ++examined_;
    }
  }
  // Every pane, the window around them, and every dialog that stays open beside it.
  void ExamineAll(Command theme) {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
    ASSERT_TRUE(WaitForStatistics());
    window_->commands()[theme]->trigger();
    QTest::qWait(100);
    for (QDockWidget* dock : window_->findChildren<QDockWidget*>()) {
      dock->raise();
      ASSERT_TRUE(WaitFor([&] { return !StopsIn(dock).isEmpty(); })) << dock->objectName().toStdString();
      ASSERT_NO_FATAL_FAILURE(Examine(dock));
    }
    window_->commands()[Command::kFindToken]->trigger();
    ASSERT_NO_FATAL_FAILURE(Examine(window_.get()));
    for (const Command command : {Command::kKeys, Command::kManual, Command::kClasses, Command::kTuneDialog,
                                  Command::kCapture, Command::kSettings}) {
      window_->commands()[command]->trigger();
      QDialog* dialog = nullptr;
      ASSERT_TRUE(WaitFor([&] {
        for (QDialog* one : window_->findChildren<QDialog*>()) dialog = one->isVisible() ? one : dialog;
        return dialog != nullptr;
      }));
      ASSERT_TRUE(QTest::qWaitForWindowExposed(dialog));
      ASSERT_NO_FATAL_FAILURE(Examine(dialog));
      dialog->close();
    }
    window_->activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(window_.get()));
    window_->commands()[Command::kWelcome]->trigger();
    ASSERT_NO_FATAL_FAILURE(Examine(Find<ui::WelcomePage>("welcomePage")));
    EXPECT_GT(examined_, 90);
  }

 private:
  const int cursor_flash_;  // a cursor that blinks differs by itself
  int examined_ = 0;
};

TEST_F(VisibleFocusTest, EveryPlaceIsSeenAndNamedInLightColours) {
  ExamineAll(Command::kThemeLight);
}

// From a cold start, before anybody has pressed Tab: a button that a key brought up had no frame.
TEST_F(VisibleFocusTest, WhatAKeyOpensShowsItsFocusAndWhatTheMouseDoesNot) {
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(WaitForStatistics());
  const auto differing = [this] {
    auto* const button = Find<QPushButton>("startTour");
    EXPECT_TRUE(WaitFor([&] { return button->hasFocus(); }));
    const QImage with = OnScreen(button);
    button->clearFocus();
    const int differ = Differing(OnScreen(button), with);
    button->setFocus();
    return differ;
  };
  Press(Qt::Key_F1);
  EXPECT_GE(differing(), 80);
  Press(Qt::Key_Escape);
  QTest::mouseClick(window_->canvas(), Qt::LeftButton, {}, window_->canvas()->rect().center());
  window_->commands()[Command::kWelcome]->trigger();
  EXPECT_LT(differing(), 80) << "the mouse";
  Press(Qt::Key_Escape);
  QTest::mouseClick(window_->canvas(), Qt::LeftButton, {}, window_->canvas()->rect().center());
  Press(Qt::Key_F1);
  EXPECT_GE(differing(), 80) << "a key behind the mouse";
}

TEST_F(VisibleFocusTest, EveryPlaceIsSeenInDarkColours) {
  ExamineAll(Command::kThemeDark);
}

}  // namespace
}  // namespace headscope::gui_test
