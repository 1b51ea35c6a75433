// SPDX-License-Identifier: Apache-2.0
// A score that is clicked on the map, and the menu of the map: by mouse and by key, in the first map and beside it.
#include <QClipboard>
#include <QContextMenuEvent>
#include <QDockWidget>
#include <QMenu>
#include <QMouseEvent>

#include "shell_fixture.h"
#include "token_view.h"

namespace headscope::gui_test {
namespace {

class MapMenuTest : public ShellTest {
 protected:
  MapMenuTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  void Open() {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
    canvas_ = window_->canvas();
    canvas_->SetPanelVisible(false);
    ASSERT_TRUE(WaitForCanvas());
  }
  QMenu* Menu() { return window_->findChild<QMenu*>(QStringLiteral("mapMenu")); }
  void Ask(ui::HeadCanvas* map) {
    QContextMenuEvent event(QContextMenuEvent::Keyboard, {}, {});
    QApplication::sendEvent(map, &event);
  }
  void Choose(const char* name) {
    ASSERT_NE(Menu(), nullptr);
    auto* const action = Menu()->findChild<QAction*>(QLatin1String(name));
    ASSERT_NE(action, nullptr) << name;
    action->trigger();
    Close();
  }
  void Close() {
    Menu()->close();
    ASSERT_TRUE(WaitFor([&] { return Menu() == nullptr; }));
  }

  ui::HeadCanvas* canvas_ = nullptr;
};

TEST_F(MapMenuTest, AClickedQueryStaysWithThePanesWhenThePointerLeaves) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const QPoint at = canvas_->PixelOf(400, 200).toPoint();
  QTest::mouseMove(canvas_, at);
  QTest::mouseClick(canvas_, Qt::LeftButton, {}, at);
  const ui::QueryFocus& focus = window_->state()->focus;
  ASSERT_TRUE(WaitFor([&] { return canvas_->IsSettled() && focus.row().has_value(); }));
  QEvent leave(QEvent::Leave);
  QApplication::sendEvent(canvas_, &leave);
  ASSERT_TRUE(WaitFor([&] { return !focus.column().has_value(); })) << "the pointer has left";
  ASSERT_TRUE(focus.row().has_value());
  EXPECT_NEAR(static_cast<double>(*focus.row()), 400, 2);
}

TEST_F(MapMenuTest, AScoreIsMarkedShownInTheTextAndCopied) {
  ASSERT_NO_FATAL_FAILURE(Open());
  canvas_->MarkScore(400, 200);
  Ask(canvas_);
  ASSERT_NO_FATAL_FAILURE(Choose("copyScore"));
  const QStringList parts = QApplication::clipboard()->text().split(u'\t');
  ASSERT_EQ(parts.size(), 4);
  EXPECT_EQ(parts[0], QStringLiteral("head %1:%2").arg(canvas_->head().layer).arg(canvas_->head().head));
  EXPECT_EQ(parts[1], QStringLiteral("query 400 “ word400”"));
  EXPECT_EQ(parts[2], QStringLiteral("key 200 “ word200”"));
  const double told = parts[3].mid(4).toDouble();
  const double exact = workbench_->ExactScore(canvas_->head(), 400, 200).probability;
  EXPECT_NEAR(told, exact, 0.01 * exact + 1e-4);

  window_->state()->focus.Choose(100);
  Ask(canvas_);
  ASSERT_NO_FATAL_FAILURE(Choose("scoreInText"));
  const auto* text = Find<ui::TokenView>("tokenView");
  EXPECT_TRUE(WaitFor([&] { return text->isVisible() && text->query() == 400; }));

  Ask(canvas_);
  ASSERT_NO_FATAL_FAILURE(Choose("zoomToScore"));
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_LT(canvas_->ScoresPerPixel(), 0.2);
  // With nothing marked there are the commands of the view.
  canvas_->ClearMark();
  Ask(canvas_);
  ASSERT_NE(Menu(), nullptr);
  EXPECT_EQ(Menu()->findChild<QAction*>(QStringLiteral("markScore")), nullptr);
  EXPECT_TRUE(Menu()->actions().contains(window_->commands()[ui::Command::kBookmark]));
  ASSERT_NO_FATAL_FAILURE(Close());
}

TEST_F(MapMenuTest, AScoreWithoutAProbabilityCannotBeCopied) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto can_copy = [&](qint64 row, qint64 column) {
    Q_EMIT canvas_->MenuWanted(canvas_->mapToGlobal(QPoint(50, 50)), row, column);
    const auto* const action = Menu() ? Menu()->findChild<QAction*>(QStringLiteral("copyScore")) : nullptr;
    EXPECT_NE(action, nullptr);
    const bool enabled = action != nullptr && action->isEnabled();
    Close();
    return enabled;
  };
  EXPECT_TRUE(can_copy(400, 200));
  EXPECT_FALSE(can_copy(200, 400)) << "the query does not see the key";
}

TEST_F(MapMenuTest, ADoubleClickPutsTheQueryBack) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const QPoint at = canvas_->PixelOf(400, 200).toPoint();
  // The display's own pointer may be there already.
  QMouseEvent move(QEvent::MouseMove, at, canvas_->mapToGlobal(at), Qt::NoButton, Qt::NoButton, Qt::NoModifier);
  QApplication::sendEvent(canvas_, &move);
  ui::QueryFocus& focus = window_->state()->focus;
  ASSERT_TRUE(WaitFor([&] { return canvas_->IsSettled() && focus.column().has_value(); }));
  focus.Choose(100);
  QTest::mouseClick(canvas_, Qt::LeftButton, {}, at);
  ASSERT_TRUE(WaitFor([&] { return focus.row() != 100; }));
  QTest::mouseDClick(canvas_, Qt::LeftButton, {}, at);
  QTest::mouseRelease(canvas_, Qt::LeftButton, {}, at);
  EXPECT_TRUE(WaitFor([&] { return focus.row() == 100; }));
  EXPECT_FALSE(canvas_->ClearMark());
}

TEST_F(MapMenuTest, AMapBesideTheFirstHasAMenuOfItsOwn) {
  ASSERT_NO_FATAL_FAILURE(Open());
  window_->commands()[ui::Command::kSplit]->trigger();
  ui::HeadCanvas* const second = window_->second_canvas();
  ASSERT_NE(second, nullptr);
  ASSERT_TRUE(WaitFor([&] { return second->IsSettled() && canvas_->IsSettled(); }));
  second->MarkScore(300, 100);
  EXPECT_EQ(window_->state()->focus.row(), 300) << "the panes follow, it is the same trace";
  Ask(second);
  ASSERT_NE(Menu(), nullptr);
  EXPECT_TRUE(Menu()->actions().contains(window_->commands()[ui::Command::kExchangeMaps]));
  EXPECT_FALSE(Menu()->actions().contains(window_->commands()[ui::Command::kBookmark])) << "of the first map alone";
  ASSERT_NO_FATAL_FAILURE(Close());
}

}  // namespace
}  // namespace headscope::gui_test
