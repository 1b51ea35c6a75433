// SPDX-License-Identifier: Apache-2.0
// The curve of the kept masses in the real window: its target is dragged, and the method's parameters follow.
#include "curve_pane.h"

#include <QAction>
#include <QComboBox>
#include <QDockWidget>
#include <QLabel>
#include <algorithm>

#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

class CurvePaneTest : public ShellTest {
 protected:
  CurvePaneTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  void Open(const char* method) {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
    window_->store()->Select({0, 2});  // looks at random keys: every pair that a mask drops costs mass
    const auto& methods = workbench_->methods();
    const auto spec = std::find_if(methods.begin(), methods.end(), [&](const auto& one) { return one.name == method; });
    ASSERT_TRUE(window_->canvas()->SetMethod(QLatin1String(method), kernels::ParameterValues(*spec)));
    window_->ActionNamed(QStringLiteral("go-curveDock"))->trigger();
    chart_ = Find<ui::CurveChart>("curveChart");
    ASSERT_TRUE(WaitFor([&] { return chart_->isVisible() && chart_->BinAt(chart_->GripOf(0.99)) != nullptr; }));
    ASSERT_TRUE(WaitForCanvas());
  }
  void Drag(QPoint from, QPoint to) {
    QTest::mousePress(chart_, Qt::LeftButton, {}, from);
    for (const QPoint at : {(from + to) / 2, to}) {
      QMouseEvent move(QEvent::MouseMove, at, chart_->mapToGlobal(QPointF(at)), Qt::NoButton, Qt::LeftButton,
                       Qt::NoModifier);
      QApplication::sendEvent(chart_, &move);
    }
    QTest::mouseRelease(chart_, Qt::LeftButton, {}, to);
  }
  ui::MethodTrial& trial() { return window_->state()->trial; }

  ui::CurveChart* chart_ = nullptr;
};

TEST_F(CurvePaneTest, TheDraggedLineMovesABudgetSoThatTheCurveMeetsIt) {
  ASSERT_NO_FATAL_FAILURE(Open("a-shape"));
  const kernels::ParameterValues before = trial().values();
  Drag(chart_->GripOf(0.95), chart_->GripOf(0.92));
  EXPECT_NEAR(trial().target(), 0.92, 0.011) << "to the pixel";
  ASSERT_TRUE(WaitFor([&] { return trial().values() != before && !trial().mask_pending(); }));
  ASSERT_TRUE(WaitForCanvas());
  // By plain counting: fewer than 5 % of the queries lie below the line.
  const std::vector<float>& mass = trial().mask()->kept_mass;
  const auto below =
      std::count_if(mass.begin(), mass.end(), [&](float one) { return static_cast<double>(one) < trial().target(); });
  EXPECT_LT(static_cast<double>(below), 0.05 * static_cast<double>(mass.size()));
  EXPECT_LT(trial().mask()->summary.kept_fraction, 1) << "and not by keeping everything";
  EXPECT_TRUE(Find<QLabel>("curveStatus")->text().contains(QStringLiteral("% below")));
  // What was one movement of the hand is one step back, and forward.
  const kernels::ParameterValues found = trial().values();
  const double target = trial().target();
  window_->ActionNamed(QStringLiteral("undo"))->trigger();
  EXPECT_EQ(trial().target(), 0.95);
  EXPECT_EQ(trial().values(), before);
  window_->ActionNamed(QStringLiteral("redo"))->trigger();
  EXPECT_EQ(trial().target(), target);
  EXPECT_EQ(trial().values(), found);
}

TEST_F(CurvePaneTest, SharesOfMassFollowAtOnceAndKeysMoveTheLine) {
  ASSERT_NO_FATAL_FAILURE(Open("sample-attention"));
  chart_->setFocus();
  QTest::keyClick(chart_, Qt::Key_Down);
  EXPECT_EQ(trial().target(), 0.94);
  EXPECT_EQ(trial().values().Real("alpha_c"), 0.94);
  QTest::keyClick(chart_, Qt::Key_Up, Qt::ControlModifier);
  EXPECT_EQ(trial().target(), 0.941);
  ASSERT_TRUE(WaitForCanvas());
  QTest::mouseDClick(chart_, Qt::LeftButton, {}, chart_->GripOf(0.941));
  EXPECT_EQ(trial().target(), 0.95);
}

TEST_F(CurvePaneTest, AClickOnTheCurveShowsItsQueryOnTheMap) {
  ASSERT_NO_FATAL_FAILURE(Open("a-shape"));
  // Sorted, the query that keeps least is at the left.
  Find<QComboBox>("curveOrder")->setCurrentIndex(1);
  QPoint left = chart_->GripOf(0.5);
  for (left.setX(0); chart_->BinAt(left) == nullptr; left.rx()++) ASSERT_LT(left.x(), chart_->width());
  const std::vector<float>& mass = trial().mask()->kept_mass;
  const auto worst = std::min_element(mass.begin(), mass.end()) - mass.begin();
  QTest::mouseClick(chart_, Qt::LeftButton, {}, left);
  EXPECT_EQ(window_->state()->focus.row(), worst);
  ASSERT_TRUE(WaitForCanvas());
  const ui::HeadCanvas::Part part = window_->canvas()->VisiblePart();
  EXPECT_TRUE(part.row_begin <= worst && worst < part.row_end);
}

}  // namespace
}  // namespace headscope::gui_test
