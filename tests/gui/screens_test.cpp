// SPDX-License-Identifier: Apache-2.0
// The window on small screens and at two device pixels a logical one. CTest also runs these on displays of such sizes;
// on a larger one the window is given those sizes.
#include <QAction>
#include <QDialog>
#include <QDockWidget>
#include <QMenuBar>
#include <QPushButton>
#include <QScreen>
#include <QStatusBar>
#include <QTableView>
#include <QToolBar>
#include <QToolButton>
#include <map>

#include "canvas_layout.h"
#include "head_table.h"
#include "notice_bar.h"
#include "shell_fixture.h"
#include "welcome_page.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;

class ScreensTest : public ShellTest {
 protected:
  // A first start: nothing says how large the window shall be.
  void FirstStart() {
    window_ = std::make_unique<ui::MainWindow>(workbench_.get(), File(QStringLiteral("session.json")));
    window_->show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(window_.get()));
    window_->OpenAtStart(trace_path(), QString());
    ASSERT_TRUE(WaitForCanvas());
  }
  // Everything that a person needs is there and none lies over another.
  void ExpectUsable() {
    const ui::HeadCanvas* canvas = window_->canvas();
    EXPECT_GE(canvas->width(), 400);
    EXPECT_GE(canvas->height(), 250);
    std::vector<std::pair<std::string, QRect>> placed;
    const auto place = [&](const char* name, const QWidget* widget) {
      const QRect rect(widget->mapTo(window_.get(), QPoint()), widget->size());
      EXPECT_TRUE(window_->rect().contains(rect)) << name << " lies outside of the window";
      for (const auto& [other, taken] : placed) EXPECT_FALSE(taken.intersects(rect)) << name << " over " << other;
      placed.emplace_back(name, rect);
    };
    place("canvas", canvas);
    place("menu", window_->menuBar());
    place("tools", Find<QToolBar>("toolBar"));
    place("status", window_->statusBar());
    for (const char* dock : {"matrixDock", "tableDock", "runsDock", "massDock"}) place(dock, Find<QDockWidget>(dock));
    for (const QAction* menu : window_->menuBar()->actions())
      EXPECT_TRUE(window_->menuBar()->rect().contains(window_->menuBar()->actionGeometry(const_cast<QAction*>(menu))))
          << menu->text().toStdString();
    const auto* heads = Find<QTableView>("headTable");
    EXPECT_GE(heads->viewport()->height(), 60);
    const QRect metric = heads->visualRect(heads->model()->index(0, ui::HeadTableModel::kFirstMetric));
    EXPECT_TRUE(heads->viewport()->rect().contains(metric))
        << "the first metric's numbers end at " << metric.right() << " of " << heads->viewport()->width();
    EXPECT_GE(Find<QTableView>("runsTable")->viewport()->height(), 40);
  }
};

TEST_F(ScreensTest, FirstWindowAndDialogsFitTheScreen) {
  ASSERT_NO_FATAL_FAILURE(FirstStart());
  const QRect screen = window_->screen()->availableGeometry();
  EXPECT_TRUE(screen.contains(window_->frameGeometry()))
      << window_->frameGeometry().width() << " x " << window_->frameGeometry().height();
  EXPECT_LE(window_->height() + window_->style()->pixelMetric(QStyle::PM_TitleBarHeight), screen.height())
      << "with a title, which these displays give no window, its status bar is on the screen";
  ExpectUsable();
  Press(Qt::Key_N, Qt::ControlModifier);
  Press(Qt::Key_Question);
  for (const char* name : {"captureDialog", "keysDialog"}) {
    auto* dialog = Find<QDialog>(name);
    ASSERT_TRUE(QTest::qWaitForWindowExposed(dialog));
    EXPECT_LE(dialog->frameGeometry().width(), screen.width()) << name;
    EXPECT_LE(dialog->frameGeometry().height(), screen.height()) << name;
    dialog->close();
  }
}

TEST_F(ScreensTest, WindowIsUsableAtTheSizesOfSmallScreens) {
  ASSERT_NO_FATAL_FAILURE(FirstStart());
  // 28 pixels for a title and 24 for a desktop's bar.
  for (const QSize size : {QSize(1280, 720 - 52), QSize(1024, 768 - 52)}) {
    if (!QRect(QPoint(), window_->screen()->availableSize()).contains(QRect(QPoint(), size))) continue;
    SCOPED_TRACE(std::to_string(size.width()) + " x " + std::to_string(size.height()));
    window_->resize(size);
    ASSERT_TRUE(WaitFor([&] { return window_->size() == size; }, 3000))
        << window_->width() << " x " << window_->height() << " is as small as it gets";
    ASSERT_TRUE(WaitForCanvas());
    ExpectUsable();
    // The panel leaves the map to be seen: it stands beside it where that takes nothing from it, which of the wider
    // window depends on the screen that its panes were laid out on; else it is rolled up, and one click or key opens
    // it.
    const ui::HeadCanvas* canvas = window_->canvas();
    const QRectF panel = canvas->PanelControl(QStringLiteral("panel"));
    const bool has_room = ui::HasRoomForPanel(canvas->width(), canvas->height(), {.profiles = true});
    EXPECT_FALSE(has_room && size.width() == 1024) << canvas->width() << " x " << canvas->height();
    if (has_room) {
      EXPECT_GE(panel.left(), canvas->MapRect().right());
      EXPECT_GT(panel.height(), 200);
    } else {
      EXPECT_LT(panel.height(), 40);
      EXPECT_LE(panel.bottom(), canvas->MapRect().top());
    }
    window_->canvas()->setFocus();
    QTest::keyClick(window_->canvas(), Qt::Key_F4);
    ASSERT_TRUE(WaitForCanvas());
    EXPECT_FALSE(window_->canvas()->PanelControl(QStringLiteral("method")).isNull());
    return;  // opened by hand it stays open
  }
}

// The smallest size at which the window is still one: no pane, whichever lies in front, makes it wider than its screen.
TEST_F(ScreensTest, TheWindowGetsAsSmallAsEightHundredBySixHundred) {
  ASSERT_NO_FATAL_FAILURE(FirstStart());
  for (const QDockWidget* dock : window_->findChildren<QDockWidget*>()) {
    const QSize least = dock->minimumSizeHint();
    EXPECT_LE(least.width(), 264) << dock->objectName().toStdString();
    EXPECT_LE(least.height(), 170) << dock->objectName().toStdString();
  }
  window_->resize(800, 600);
  ASSERT_TRUE(WaitFor([&] { return window_->size() == QSize(800, 600); }, 3000))
      << window_->width() << " x " << window_->height() << " is as small as it gets";
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_GE(std::min(window_->canvas()->MapRect().width(), window_->canvas()->MapRect().height()), 150);
  // The Welcome page has all of its lines, though the map is lower than it.
  Press(Qt::Key_F1);
  auto* welcome = Find<ui::WelcomePage>("welcomePage");
  ASSERT_TRUE(welcome->isVisible());
  EXPECT_TRUE(window_->rect().contains(QRect(welcome->mapTo(window_.get(), QPoint()), welcome->size())));
  for (const QPushButton* button : welcome->findChildren<QPushButton*>()) {
    if (!button->isVisible()) continue;
    EXPECT_GE(button->height(), button->fontMetrics().height()) << button->text().toStdString();
  }
}

TEST_F(ScreensTest, AWindowThatWasSmallForAWhileHasItsPanesBack) {
  ASSERT_NO_FATAL_FAILURE(FirstStart());
  const QSize large(1440, 900), small(800, 600);
  std::map<std::string, QSize> before;
  for (const QSize size : {large, small, large}) {
    window_->resize(size);
    ASSERT_TRUE(WaitFor([&] { return window_->size() == size; }, 3000));
    ASSERT_TRUE(WaitForCanvas());
    QTest::qWait(700);  // until the panes' shares are at rest
    for (const char* name : {"matrixDock", "tableDock", "runsDock", "massDock"}) {
      const QSize now = Find<QDockWidget>(name)->size();
      if (before.contains(name) && size == large) {
        EXPECT_NEAR(now.width(), before[name].width(), 12) << name;
        EXPECT_NEAR(now.height(), before[name].height(), 12) << name;
      } else if (size == large) {
        before[name] = now;
      }
    }
  }
  EXPECT_EQ(before.size(), 4U);
}

// At 1440 x 900 the panel lay over the map.
TEST_F(ScreensTest, ThePanelLeavesTheMapFreeAtCommonSizes) {
  ASSERT_NO_FATAL_FAILURE(FirstStart());
  bool beside = false;
  for (const QSize size : {QSize(1280, 800), QSize(1440, 900), QSize(1600, 1000), QSize(1920, 1080)}) {
    SCOPED_TRACE(std::to_string(size.width()) + " x " + std::to_string(size.height()));
    window_->resize(size);
    ASSERT_TRUE(WaitFor([&] { return window_->size() == size; }, 3000));
    ASSERT_TRUE(WaitForCanvas());
    const ui::HeadCanvas* canvas = window_->canvas();
    const QRectF panel = canvas->PanelControl(QStringLiteral("panel")), map = canvas->MapRect();
    EXPECT_FALSE(panel.isNull());
    EXPECT_FALSE(panel.intersects(map)) << panel.x() << " .. " << panel.right() << " x " << panel.y() << " .. "
                                        << panel.bottom() << " over a map that ends at " << map.right();
    EXPECT_GE(std::min(map.width(), map.height()), 250);
    beside = beside || panel.left() >= map.right();
  }
  EXPECT_TRUE(beside) << "on the large ones it stands open beside the map";
  // And in the next window, whose size and panel are those of this one.
  window_.reset();
  ASSERT_NO_FATAL_FAILURE(FirstStart());
  EXPECT_TRUE(WaitFor([&] {
    const QRectF panel = window_->canvas()->PanelControl(QStringLiteral("panel"));
    return !panel.isNull() && !panel.intersects(window_->canvas()->MapRect());
  })) << "the panel lies over the map";
}

// A list that was opened in a small window once left the panel over every map that was narrow later.
TEST_F(ScreensTest, APanelOpenedInASmallWindowDoesNotLieOverASplitMapOfALargeOne) {
  ASSERT_NO_FATAL_FAILURE(FirstStart());
  ui::HeadCanvas* const canvas = window_->canvas();
  const auto is_open = [&] { return !canvas->PanelControl(QStringLiteral("method")).isNull(); };
  const auto resize = [&](QSize size) {
    window_->resize(size);
    return WaitFor([&] { return window_->size() == size; }, 3000) && WaitForCanvas();
  };
  ASSERT_TRUE(resize({800, 600}));
  ASSERT_FALSE(is_open());
  window_->commands()[ui::Command::kChooseMethod]->trigger();
  ASSERT_TRUE(WaitFor(is_open, 3000));
  canvas->setFocus();
  QTest::keyClick(canvas, Qt::Key_Escape);
  ASSERT_TRUE(resize({1500, 900}));
  ASSERT_TRUE(WaitFor(is_open, 3000)) << "there it has a place of its own";
  window_->commands()[ui::Command::kSplit]->trigger();
  EXPECT_TRUE(WaitFor([&] { return WaitForCanvas() && !is_open(); }, 5000)) << "it lies over the first map";
}

// A lower map leaves more room beside it: the panel opened with a notice, the map shrank, and both went back after it.
TEST_F(ScreensTest, ANoticeDoesNotOpenTheRolledUpPanel) {
  ASSERT_NO_FATAL_FAILURE(FirstStart());
  ASSERT_TRUE(WaitForStatistics());
  const ui::HeadCanvas* const canvas = window_->canvas();
  auto* const notice = Find<ui::NoticeBar>("notice");
  ASSERT_TRUE(WaitFor([&] { return !notice->isVisible(); }, 20000));
  const auto has_room = [&](int height) { return ui::HasRoomForPanel(canvas->width(), height, {.profiles = true}); };
  constexpr int kNotice = 34;  // its least
  int height = 560;
  for (; height <= 940; height += 4) {
    window_->resize(1280, height);
    ASSERT_TRUE(WaitFor([&] { return window_->height() == height; }, 3000));
    QTest::qWait(20);
    if (!has_room(canvas->height()) && has_room(canvas->height() - kNotice)) break;
  }
  ASSERT_LE(height, 940) << "there is no such window";
  ASSERT_TRUE(WaitForCanvas());
  const auto is_rolled_up = [&] { return canvas->PanelControl(QStringLiteral("panel")).height() < 40; };
  ASSERT_TRUE(WaitFor(is_rolled_up, 3000));
  notice->ShowError(QStringLiteral("A sentence."));
  QTest::qWait(100);
  ASSERT_TRUE(WaitForCanvas());
  ASSERT_TRUE(has_room(canvas->height())) << "of " << canvas->height() << " pixels: this test tests nothing";
  EXPECT_TRUE(is_rolled_up());
  notice->Dismiss();
  QTest::qWait(100);
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_TRUE(is_rolled_up());
}

// The panel was placed as if the first map alone gave way to the notice, or as if the lower ones still did.
TEST_F(ScreensTest, RowsOfMapsShareWhatANoticeTakes) {
  ASSERT_NO_FATAL_FAILURE(FirstStart());
  const ui::HeadCanvas* const canvas = window_->canvas();
  auto* const notice = Find<ui::NoticeBar>("notice");
  notice->ShowError(QStringLiteral("A sentence."));
  ASSERT_TRUE(WaitFor([&] { return canvas->notice_height() > 0; }, 3000));
  const int height = notice->height();
  EXPECT_EQ(canvas->notice_height(), height);
  QAction* const split = window_->commands()[ui::Command::kSplitFour];
  split->trigger();
  EXPECT_EQ(canvas->notice_height(), height / 2);
  QTest::qWait(50);
  ASSERT_EQ(notice->height(), height) << "it has broken its line: this test tests nothing";
  EXPECT_EQ(canvas->notice_height(), height / 2);
  split->trigger();
  EXPECT_EQ(canvas->notice_height(), height);
}

TEST_F(ScreensTest, ClicksMeetWhatIsDrawn) {
  ASSERT_NO_FATAL_FAILURE(FirstStart());
  ASSERT_TRUE(WaitForStatistics());
  auto* matrix = Find<ui::HeadMatrix>("headMatrix");
  const QImage image = matrix->grab().toImage();
  for (const HeadId head : {HeadId{0, 3}, HeadId{1, 0}}) {
    const QPoint centre = *matrix->CellCentre(head);
    // Beside the cell's number, in device pixels.
    const QPoint corner = centre - QPoint(0, 9);
    EXPECT_EQ(image.pixelColor(corner * image.devicePixelRatio()).rgb(), matrix->CellColor(head)->rgb());
    QTest::mouseClick(matrix, Qt::LeftButton, {}, centre);
    EXPECT_EQ(window_->canvas()->head(), head);
  }
}

}  // namespace
}  // namespace headscope::gui_test
