// SPDX-License-Identifier: Apache-2.0
// From a start without a session to a map in a file by keys alone: each goes to whatever has the keyboard, and that is
// in sight.
#include <QApplication>
#include <QFileDialog>
#include <QFileInfo>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <QScreen>
#include <QTableView>
#include <QTimer>
#include <optional>
#include <string>

#include "runs_model.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

class KeyboardWalkTest : public ShellTest {
 protected:
  // What has the keyboard; fails where nobody could see it.
  static QWidget* Focus() {
    QWidget* const focus = QApplication::focusWidget();
    EXPECT_NE(focus, nullptr) << "nothing has the keyboard";
    if (focus != nullptr) {
      EXPECT_TRUE(focus->isVisible() && !focus->visibleRegion().isEmpty()) << focus->objectName().toStdString();
    }
    return focus;
  }
  static void PressKey(Qt::Key key, Qt::KeyboardModifiers modifiers = {}) {
    if (QWidget* const focus = Focus()) QTest::keyClick(focus, key, modifiers);
  }
  static void TypeText(const QString& text) {
    if (QWidget* const focus = Focus()) QTest::keyClicks(focus, text);
  }
  // Types a path and Enter into the next file dialog, as somebody who does not look for its fields.
  void AnswerByKeys(const QString& path) {
    auto* timer = new QTimer(window_.get());
    QObject::connect(timer, &QTimer::timeout, timer, [timer, path] {
      auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
      if (dialog == nullptr || !dialog->isVisible() || QApplication::focusWidget() == nullptr ||
          QApplication::focusWidget()->window() != dialog)
        return;
      timer->deleteLater();
      PressKey(Qt::Key_A, Qt::ControlModifier);
      TypeText(path);
      PressKey(Qt::Key_Return);
    });
    timer->start(20);
  }
  // A display without a window manager makes no window the active one when a dialog closes.
  void BackInWindow() {
    window_->activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(window_.get()));
  }
  // Tab until the panel's control of this name has the keyboard.
  void TabToControl(const QString& name) {
    ui::HeadCanvas* const canvas = window_->canvas();
    for (int press = 0; press < 40 && canvas->FocusedControl() != name; ++press) {
      ASSERT_TRUE(canvas->hasFocus()) << "Tab left the panel for " << Focus()->objectName().toStdString();
      PressKey(Qt::Key_Tab);
      ASSERT_TRUE(WaitForCanvas());
    }
    ASSERT_EQ(canvas->FocusedControl(), name);
    const QRectF control = canvas->PanelControl(name);
    EXPECT_TRUE(!control.isNull() && QRectF(canvas->rect()).contains(control)) << name.toStdString() << " is cut off";
  }
  void Look(const char* step) {
    QTest::qWait(50);
    const QString folder = qEnvironmentVariable("HEADSCOPE_TEST_RESULTS");
    if (folder.isEmpty()) return;
    const QString path = QStringLiteral("%1/walk_%2.png").arg(folder, QLatin1String(step));
    EXPECT_TRUE(window_->screen()->grabWindow(window_->winId()).save(path)) << path.toStdString();
  }
};

TEST_F(KeyboardWalkTest, OpenFindChooseMoveRunReadAndExport) {
  OpenWindow({});
  ASSERT_TRUE(QTest::qWaitForWindowActive(window_.get()));
  ASSERT_TRUE(WaitFor([] {
    const QWidget* const focus = QApplication::focusWidget();
    return focus != nullptr && !focus->visibleRegion().isEmpty();
  }));
  Look("0_start");
  AnswerByKeys(ShippedTrace());
  PressKey(Qt::Key_O, Qt::ControlModifier);
  ASSERT_NO_FATAL_FAILURE(BackInWindow());
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasTrace(); }));
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasAllStatistics(); }, 120000));
  ASSERT_TRUE(WaitForCanvas(60000));
  Look("1_opened");

  // A sparse head: by the filter of the heads' table, which is one key away.
  PressKey(Qt::Key_3, Qt::AltModifier);
  auto* const filter = Find<QLineEdit>("headFilter");
  for (int press = 0; press < 6 && !filter->hasFocus(); ++press) PressKey(Qt::Key_Tab);
  ASSERT_TRUE(filter->hasFocus()) << Focus()->objectName().toStdString();
  // A guess at the name is answered by the name, and opens nothing.
  const std::optional<analysis::HeadId> at_first = window_->state()->trial.head();
  TypeText(QStringLiteral("sparsity>0.98"));
  PressKey(Qt::Key_Return);
  EXPECT_TRUE(filter->hasFocus());
  EXPECT_EQ(window_->state()->trial.head(), at_first);
  EXPECT_TRUE(Find<QLabel>("filterError")->text().contains(QStringLiteral("type sparsity_0.9")));
  Look("2_guessed");
  PressKey(Qt::Key_A, Qt::ControlModifier);
  TypeText(QStringLiteral("sparsity_0.95>0.98"));
  PressKey(Qt::Key_Return);
  ASSERT_TRUE(WaitForCanvas(60000));
  const std::optional<analysis::HeadId> head = window_->state()->trial.head();
  ASSERT_TRUE(head);
  const analysis::HeadStatistics* const statistics = window_->store()->Find(*head);
  ASSERT_NE(statistics, nullptr);
  EXPECT_GT(analysis::MetricValue(*statistics, "sparsity_0.95"), 0.98);
  Look("2_filtered");

  // A method by its name, and its threshold.
  ui::HeadCanvas* const canvas = window_->canvas();
  PressKey(Qt::Key_M, Qt::ControlModifier | Qt::ShiftModifier);
  ASSERT_TRUE(WaitForCanvas(60000));
  TypeText(QStringLiteral("sample"));
  ASSERT_TRUE(WaitForCanvas(60000));
  Look("3_list");
  PressKey(Qt::Key_Return);
  ASSERT_TRUE(WaitForCanvas(60000));
  EXPECT_EQ(canvas->method(), QStringLiteral("sample-attention"));
  ASSERT_NO_FATAL_FAILURE(TabToControl(QStringLiteral("alpha_c")));
  const double before = canvas->method_values().Real("alpha_c");
  const std::string shown_before = canvas->mask()->summary.parameters;
  const double kept_before = canvas->mask()->summary.kept_fraction;
  for (int press = 0; press < 10; ++press) PressKey(Qt::Key_Left);
  ASSERT_TRUE(WaitForCanvas(60000));
  EXPECT_LT(canvas->method_values().Real("alpha_c"), before);
  EXPECT_LE(canvas->mask()->summary.kept_fraction, kept_before);
  EXPECT_NE(canvas->mask()->summary.parameters, shown_before) << "the map has the moved threshold's mask";
  Look("4_moved");

  // The run, from where the keyboard is; its result is in sight.
  const int64_t runs = window_->state()->trial.num_results();
  PressKey(Qt::Key_F5);
  ASSERT_TRUE(WaitFor([&] { return window_->state()->trial.num_results() > runs; }, 60000));
  ASSERT_TRUE(WaitForCanvas(60000));
  const QRectF result = canvas->PanelControl(QStringLiteral("result"));
  EXPECT_TRUE(!result.isNull() && result.top() < canvas->height()) << "its beginning";
  Look("5_run");
  // And read line by line in the table of runs.
  auto* const table = Find<QTableView>("runsTable");
  for (int press = 0; press < 12 && !table->hasFocus(); ++press) PressKey(Qt::Key_F6);
  ASSERT_TRUE(table->hasFocus()) << Focus()->objectName().toStdString();
  PressKey(Qt::Key_End, Qt::ControlModifier);
  EXPECT_TRUE(table->currentIndex().isValid());
  EXPECT_FALSE(table->visualRect(table->currentIndex()).isEmpty());
  Look("6_read");

  const QString file = File(QStringLiteral("walk.png"));
  AnswerByKeys(file);
  PressKey(Qt::Key_E, Qt::ControlModifier | Qt::ShiftModifier);
  ASSERT_NO_FATAL_FAILURE(BackInWindow());
  ASSERT_TRUE(WaitFor([&] { return QFileInfo::exists(file); }, 60000));
  EXPECT_TRUE(WaitFor([&] { return !QImage(file).isNull(); }));
  EXPECT_TRUE(Focus() == table) << "the keyboard is where it was: " << Focus()->objectName().toStdString();
  Look("7_exported");
}

}  // namespace
}  // namespace headscope::gui_test
