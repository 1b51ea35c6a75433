// SPDX-License-Identifier: Apache-2.0
// The page to begin with: heads worth a look, and a tour that frames what it speaks of.
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
