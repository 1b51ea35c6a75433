// SPDX-License-Identifier: Apache-2.0
// The page to begin with: heads worth a look, and a tour that frames what it speaks of.
#include <QApplication>
#include <QDockWidget>
#include <QPushButton>
#include <algorithm>

#include "head_table.h"
#include "reach_fixture.h"
#include "welcome_page.h"

namespace headscope::gui_test {
namespace {

using analysis::HeadId;
using ui::Command;

TEST_F(ReachTest, TheWelcomePageOpensAHeadAndItsTourWalksTheRealPanes) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  Press(Qt::Key_F1);
  auto* welcome = Find<ui::WelcomePage>("welcomePage");
  ASSERT_TRUE(welcome->isVisible());
  const HeadId sparsest = ui::HeadsWorthALook(*window_->store()).front().head;
  QPushButton* link = nullptr;
  for (QPushButton* button : welcome->findChildren<QPushButton*>()) {
    if (button->text().startsWith(QStringLiteral("%1:%2 ").arg(sparsest.layer).arg(sparsest.head))) link = button;
  }
  ASSERT_NE(link, nullptr);
  // Where the keyboard is can be seen.
  welcome->setFocus();
  const QImage without = link->grab().toImage();
  link->setFocus(Qt::TabFocusReason);
  ASSERT_TRUE(link->hasFocus());
  EXPECT_NE(link->grab().toImage(), without);
  QTest::mouseClick(link, Qt::LeftButton);
  EXPECT_EQ(canvas_->head(), sparsest);
  EXPECT_FALSE(welcome->isVisible());
  Press(Qt::Key_F1);
  window_->resize(1000, 700);
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_TRUE(canvas_->PanelControl(QStringLiteral("method")).isNull()) << "rolled up";
  canvas_->SetPanelVisible(false);
  Raise("mapsDock");
  QTest::mouseClick(Find<QPushButton>("startTour"), Qt::LeftButton);
  EXPECT_TRUE(Find<ui::HeadMatrix>("headMatrix")->isVisible()) << "the tour brings the matrix to the front";
  auto* next = Find<QPushButton>("tourNext");
  for (int step = 0; step < std::ssize(ui::WelcomePage::Tour()); ++step) {
    EXPECT_EQ(welcome->tour_step(), step);
    EXPECT_TRUE(welcome->isVisible());
    // What the step is about is framed: a pane, the map or the panel on it.
    const ui::TourStep& tour = ui::WelcomePage::Tour()[static_cast<size_t>(step)];
    const auto* frame = Find<QWidget>("tourFrame");
    const auto framed = [&]() -> QRect {
      if (tour.ActionName() == u"panel")
        return canvas_->PanelControl(QStringLiteral("panel"))
            .toAlignedRect()
            .translated(canvas_->mapTo(window_.get(), QPoint()));
      const QWidget* widget = canvas_;
      for (const QDockWidget* dock : window_->findChildren<QDockWidget*>()) {
        if (ui::GoToDockName(*dock) == tour.ActionName()) widget = dock;
      }
      return {widget->mapTo(window_.get(), QPoint()), widget->size()};
    };
    EXPECT_TRUE(WaitFor([&] { return frame->isVisible() && frame->geometry() == framed(); })) << "step " << step;
    QTest::mouseClick(next, Qt::LeftButton);
  }
  EXPECT_FALSE(welcome->isVisible());
  EXPECT_FALSE(Find<QWidget>("tourFrame")->isVisible());
  EXPECT_TRUE(canvas_->panel_visible()) << "a step was about the panel";
  EXPECT_TRUE(WaitFor([&] { return !canvas_->PanelControl(QStringLiteral("method")).isNull(); }))
      << "and unrolled it, though the window is small";
}

// Counts what timers ask of a widget and its children, those of no time too, which come as calls.
class TimerWatch : public QObject {
 public:
  explicit TimerWatch(const QObject* watched) : watched_(watched) { qApp->installEventFilter(this); }
  int count() const { return count_; }

 protected:
  bool eventFilter(QObject* receiver, QEvent* event) override {
    if (event->type() != QEvent::Timer && event->type() != QEvent::MetaCall) return false;
    for (const QObject* at = receiver; at != nullptr; at = at->parent()) count_ += at == watched_ ? 1 : 0;
    return false;
  }

 private:
  const QObject* const watched_;
  int count_ = 0;
};

TEST_F(ReachTest, TheToursFrameFollowsWhatItIsAboutAndAsksForNothingMeanwhile) {
  Open();
  ASSERT_TRUE(WaitForStatistics());
  Press(Qt::Key_F1);
  auto* welcome = Find<ui::WelcomePage>("welcomePage");
  QTest::mouseClick(Find<QPushButton>("startTour"), Qt::LeftButton);
  const auto* frame = Find<QWidget>("tourFrame");
  const auto stands_around = [&](const QWidget* widget, const QRect& part) {
    return frame->isVisible() && frame->geometry() == QRect(widget->mapTo(window_.get(), part.topLeft()), part.size());
  };
  // A pane that is taken out of the window, closed, shown and docked again, and a window that grows.
  auto* dock = Find<QDockWidget>("matrixDock");
  ASSERT_TRUE(WaitFor([&] { return stands_around(dock, dock->rect()); }));
  dock->setFloating(true);
  EXPECT_TRUE(WaitFor([&] { return !frame->isVisible(); }));
  dock->setFloating(false);
  dock->raise();  // it may have come back behind another one's tab
  EXPECT_TRUE(WaitFor([&] { return stands_around(dock, dock->rect()); }));
  dock->hide();
  EXPECT_TRUE(WaitFor([&] { return !frame->isVisible(); }));
  dock->show();
  dock->raise();
  EXPECT_TRUE(WaitFor([&] { return stands_around(dock, dock->rect()); }));
  window_->resizeDocks({dock}, {dock->width() + 60}, Qt::Horizontal);
  EXPECT_TRUE(WaitFor([&] { return stands_around(dock, dock->rect()); }));
  // The map, which panes push about, and the panel on it, which moves by itself.
  QTest::mouseClick(Find<QPushButton>("tourNext"), Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return stands_around(canvas_, canvas_->rect()); }));
  dock->hide();
  EXPECT_TRUE(WaitFor([&] { return stands_around(canvas_, canvas_->rect()); }));
  dock->show();
  QTest::mouseClick(Find<QPushButton>("tourNext"), Qt::LeftButton);
  const auto around_panel = [&] {
    return stands_around(canvas_, canvas_->PanelControl(QStringLiteral("panel")).toAlignedRect());
  };
  ASSERT_TRUE(WaitFor(around_panel));
  for (const QSize size : {QSize(1000, 700), QSize(1400, 860)}) {
    window_->resize(size);
    ASSERT_TRUE(WaitForCanvas());
    EXPECT_TRUE(WaitFor(around_panel));
  }
  canvas_->SetPanelVisible(false);
  EXPECT_TRUE(WaitFor([&] { return !frame->isVisible(); }));
  canvas_->SetPanelVisible(true);
  EXPECT_TRUE(WaitFor(around_panel));
  ASSERT_TRUE(WaitForCanvas());
  const auto is_quiet = [&] {
    const TimerWatch watch(welcome);
    QTest::qWait(1000);
    return watch.count() == 0;
  };
  EXPECT_TRUE(WaitFor(is_quiet)) << "a tour that nobody touches costs nothing";
  EXPECT_TRUE(welcome->isVisible());
  EXPECT_TRUE(around_panel());
}

TEST_F(ReachTest, WithoutATraceTheWelcomePageIsThere) {
  OpenWindow(File(QStringLiteral("no such trace.h5")));
  auto* welcome = Find<ui::WelcomePage>("welcomePage");
  ASSERT_TRUE(WaitFor([&] { return welcome->isVisible(); }));
  window_->OpenPath(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_FALSE(welcome->isVisible());
}

TEST_F(ReachTest, EveryStepOfTheTourNamesWhatTheWindowHas) {
  Open();
  ASSERT_EQ(ui::WelcomePage::Tour().size(), 5U);
  for (const ui::TourStep& step : ui::WelcomePage::Tour())
    EXPECT_NE(window_->ActionNamed(step.ActionName()), nullptr) << step.ActionName().toStdString();
  EXPECT_EQ(window_->ActionNamed(QStringLiteral("go-nothingDock")), nullptr);
}

}  // namespace
}  // namespace headscope::gui_test
