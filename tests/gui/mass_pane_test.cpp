// SPDX-License-Identifier: Apache-2.0
// The pane of the kept mass in the real window: what it shows against plain counting, its target by mouse and keys, the
// search for the cheapest parameters, and undo.
#include <QAction>
#include <QDockWidget>
#include <QJsonObject>
#include <QLabel>
#include <QPushButton>
#include <QSignalSpy>
#include <algorithm>

#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

using ui::Command;

class MassPaneTest : public ShellTest {
 protected:
  MassPaneTest() : ShellTest(0, KnownAtStart::kStatistics) {}
  void Open(const char* method) {
    OpenWindow(trace_path());
    ASSERT_TRUE(WaitForCanvas());
    canvas_ = window_->canvas();
    window_->store()->Select({0, 2});  // looks at random keys: every pair that a mask drops costs mass
    UseMethod(method);
    chart_ = Find<ui::MassChart>("massChart");
    ASSERT_TRUE(chart_->isVisible());
  }
  const kernels::MethodSpec& Spec(const std::string& name) const {
    const auto& methods = workbench_->methods();
    return *std::find_if(methods.begin(), methods.end(), [&](const auto& spec) { return spec.name == name; });
  }
  void UseMethod(const char* method) {
    ASSERT_TRUE(canvas_->SetMethod(QLatin1String(method), kernels::ParameterValues(Spec(method))));
    Settle();
  }
  void Settle() {
    ASSERT_TRUE(WaitForCanvas());
    QTest::qWait(30);  // signals of the last change
  }
  double Value(const char* parameter) const { return canvas_->method_values().Real(parameter); }
  // Rows below the target by plain counting, as the label writes it.
  QString ShareBelow(double target) const {
    const std::vector<float>& mass = canvas_->mask()->kept_mass;
    const auto below =
        std::count_if(mass.begin(), mass.end(), [&](float value) { return static_cast<double>(value) < target; });
    return QStringLiteral("below %1: %2 %")
        .arg(target)
        .arg(100.0 * static_cast<double>(below) / static_cast<double>(mass.size()), 0, 'f', 2);
  }
  void Drag(QPoint from, QPoint to) {
    QTest::mousePress(chart_, Qt::LeftButton, {}, from);
    const QPoint middle = (from + to) / 2;
    for (const QPoint at : {middle, to}) {
      QMouseEvent move(QEvent::MouseMove, at, chart_->mapToGlobal(QPointF(at)), Qt::NoButton, Qt::LeftButton,
                       Qt::NoModifier);
      QApplication::sendEvent(chart_, &move);
    }
    QTest::mouseRelease(chart_, Qt::LeftButton, {}, to);
    Settle();
  }

  ui::HeadCanvas* canvas_ = nullptr;
  ui::MassChart* chart_ = nullptr;
};

TEST_F(MassPaneTest, DraggedTargetMovesTheMassSharesAndOneUndoTakesAllBack) {
  Open("sample-attention");
  auto* below = Find<QLabel>("belowTarget");
  EXPECT_EQ(below->text(), ShareBelow(0.95));
  EXPECT_EQ(canvas_->mass_target(), 0.95);

  const std::vector<float> mass = canvas_->mask()->kept_mass;
  Drag(chart_->GripOf(0.95), chart_->GripOf(0.1));
  EXPECT_NEAR(canvas_->mass_target(), 0.1, 0.011) << "to the pixel";
  EXPECT_EQ(Value("alpha_c"), canvas_->mass_target());
  EXPECT_EQ(Value("alpha_s"), canvas_->mass_target());
  EXPECT_NE(canvas_->mask()->kept_mass, mass) << "the mask followed";
  EXPECT_EQ(below->text(), ShareBelow(canvas_->mass_target()));

  QTest::keyClick(window_.get(), Qt::Key_Z, Qt::ControlModifier);
  Settle();
  EXPECT_EQ(canvas_->mass_target(), 0.95);
  EXPECT_EQ(Value("alpha_c"), 0.95);
  EXPECT_EQ(canvas_->mask()->kept_mass, mass);
  QTest::keyClick(window_.get(), Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
  Settle();
  EXPECT_NEAR(canvas_->mass_target(), 0.1, 0.011);
  EXPECT_EQ(Value("alpha_s"), canvas_->mass_target());
}

TEST_F(MassPaneTest, ArrowsMoveTheTargetAndADoubleClickSetsItBack) {
  Open("a-shape");
  const kernels::ParameterValues before = canvas_->method_values();
  chart_->setFocus();
  QTest::keyClick(chart_, Qt::Key_Left);
  EXPECT_EQ(canvas_->mass_target(), 0.94);
  QTest::keyClick(chart_, Qt::Key_Left, Qt::ControlModifier);
  EXPECT_EQ(canvas_->mass_target(), 0.939);
  QTest::keyClick(chart_, Qt::Key_Left, Qt::ShiftModifier);
  EXPECT_EQ(canvas_->mass_target(), 0.889);
  for (int press = 0; press < 20; ++press) QTest::keyClick(chart_, Qt::Key_Right);
  EXPECT_EQ(canvas_->mass_target(), 0.999) << "1 would be dense attention";
  QTest::mouseDClick(chart_, Qt::LeftButton, {}, chart_->GripOf(0.5));
  EXPECT_EQ(canvas_->mass_target(), 0.95);
  EXPECT_EQ(canvas_->method_values(), before) << "A-shape has no parameter that is a share of mass";
  // A press beside the line grips nothing.
  Drag(chart_->GripOf(0.5), chart_->GripOf(0.3));
  EXPECT_EQ(canvas_->mass_target(), 0.95);
}

// Both buttons went to the worst query's own key, where every method keeps everything. The map is to show what that
// query loses: here by far most of it lies on random keys, far from the diagonal.
TEST_F(MassPaneTest, WorstQueryIsShownWhereItLosesMost) {
  Open("a-shape");
  kernels::ParameterValues values(Spec("a-shape"));
  ASSERT_EQ(values.Parse(Spec("a-shape"), "n_sink=64,n_local=64"), "");
  ASSERT_TRUE(canvas_->SetMethod(QStringLiteral("a-shape"), values));
  Settle();
  const std::vector<float>& mass = canvas_->mask()->kept_mass;
  const int64_t worst = std::min_element(mass.begin(), mass.end()) - mass.begin();
  // Keys that A-shape leaves out of that row, by its definition, and the most probable of them, one by one.
  int64_t most_lost = -1;
  double most = 0;
  for (int64_t column = 64; column <= worst - 64; ++column) {
    const double probability = workbench_->ExactScore(canvas_->head(), worst, column).probability;
    if (probability > most) {
      most = probability;
      most_lost = column;
    }
  }
  ASSERT_GT(most, 0.01);
  ASSERT_LT(most_lost, worst - 64);
  auto* button = Find<QPushButton>("worstQuery");
  EXPECT_TRUE(button->text().endsWith(QStringLiteral(" %1").arg(worst))) << button->text().toStdString();
  auto* notice = Find<QLabel>("noticeText");
  const auto go_by_button = [&] { QTest::mouseClick(button, Qt::LeftButton); };
  const auto go_in_panel = [&] {
    const QPoint at = canvas_->PanelControl(QStringLiteral("worst")).center().toPoint();
    QMouseEvent move(QEvent::MouseMove, at, canvas_->mapToGlobal(QPointF(at)), Qt::NoButton, Qt::NoButton,
                     Qt::NoModifier);
    QApplication::sendEvent(canvas_, &move);
    QTest::mousePress(canvas_, Qt::LeftButton, {}, at);
    QTest::mouseRelease(canvas_, Qt::LeftButton, {}, at);
  };
  for (const std::function<void()>& go : {std::function<void()>(go_by_button), std::function<void()>(go_in_panel)}) {
    canvas_->FitView();
    Settle();
    QSignalSpy shown(canvas_, &ui::HeadCanvas::WorstQueryShown);
    go();
    ASSERT_TRUE(WaitFor([&] { return shown.count() == 1; }));
    Settle();
    const QPoint at = canvas_->PixelOf(worst, most_lost).toPoint();
    EXPECT_TRUE(canvas_->rect().contains(at)) << "key " << most_lost << " of query " << worst << " is in view";
    const QJsonObject view = canvas_->ViewState()[QStringLiteral("view")].toObject();
    EXPECT_LE(view[QStringLiteral("scores_per_pixel")].toDouble(), 1.0 / 8) << "and is seen";
    EXPECT_NEAR(view[QStringLiteral("center_column")].toDouble(), static_cast<double>(most_lost) + 0.5, 40);
    EXPECT_TRUE(notice->text().contains(QStringLiteral("key %1 ").arg(most_lost))) << notice->text().toStdString();
    EXPECT_TRUE(notice->text().contains(QString::number(most, 'f', 3))) << notice->text().toStdString();
  }
}

TEST_F(MassPaneTest, WorstStepOfADecodeMethodIsShownWhereItLosesMost) {
  Open("sliding-window");
  kernels::ParameterValues values(Spec("sliding-window"));
  ASSERT_EQ(values.Parse(Spec("sliding-window"), "n_local=64"), "");
  ASSERT_TRUE(canvas_->SetMethod(QStringLiteral("sliding-window"), values));
  Settle();
  const ui::LiveMask& mask = *canvas_->mask();
  ASSERT_LT(mask.summary.kept_fraction, 1);
  const int64_t row = mask.distribution.worst_row;
  const analysis::KeptStep& step = mask.steps->steps[static_cast<size_t>(row - mask.steps->first_row)];
  int64_t most_lost = -1;
  double most = 0;
  for (int64_t column = step.attended.begin; column < step.attended.end; ++column) {
    const bool kept = std::any_of(step.kept.begin(), step.kept.end(),
                                  [&](const auto& range) { return column >= range.begin && column < range.end; });
    const double probability = workbench_->ExactScore(canvas_->head(), row, column).probability;
    if (!kept && probability > most) {
      most = probability;
      most_lost = column;
    }
  }
  QSignalSpy shown(canvas_, &ui::HeadCanvas::WorstQueryShown);
  QTest::mouseClick(Find<QPushButton>("worstQuery"), Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return shown.count() == 1; }));
  const auto lost = shown[0][2].value<std::vector<ui::LostKey>>();
  ASSERT_FALSE(lost.empty());
  EXPECT_EQ(lost[0].column, most_lost);
  EXPECT_NEAR(lost[0].probability, most, 1e-9);
  EXPECT_TRUE(std::is_sorted(lost.begin(), lost.end(),
                             [](const auto& a, const auto& b) { return a.probability > b.probability; }));
}

TEST_F(MassPaneTest, NoQueryIsTheWorstWhereEverythingIsKept) {
  Open("dense");
  ASSERT_EQ(canvas_->mask()->summary.kept_fraction, 1);
  auto* button = Find<QPushButton>("worstQuery");
  EXPECT_EQ(button->text(), QStringLiteral("worst: none"));
  EXPECT_FALSE(button->isEnabled());
  EXPECT_TRUE(canvas_->PanelControl(QStringLiteral("worst")).isNull());
  kernels::ParameterValues sparse(Spec("s2-attention"));
  ASSERT_EQ(sparse.Set(Spec("s2-attention"), "dense_layers", 0), "");
  ASSERT_TRUE(canvas_->SetMethod(QStringLiteral("s2-attention"), sparse));
  Settle();
  ASSERT_LT(canvas_->mask()->summary.kept_fraction, 1);
  EXPECT_TRUE(button->isEnabled());
  EXPECT_FALSE(canvas_->PanelControl(QStringLiteral("worst")).isNull());
}

TEST_F(MassPaneTest, MeetTargetFindsTheFewestBlocks) {
  Open("block-sparse");
  const double before = Value("n_blocks");
  window_->state()->trial.SetTarget(0.5);
  Settle();
  QTest::mouseClick(Find<QPushButton>("meetTarget"), Qt::LeftButton);
  ASSERT_TRUE(WaitFor([&] { return Value("n_blocks") != before; })) << Find<QLabel>("noticeText")->text().toStdString();
  Settle();
  const double found = Value("n_blocks");
  EXPECT_GE(canvas_->mask()->distribution.fifth_percentile, 0.5);
  EXPECT_TRUE(WaitFor([this] { return !Find<ui::ProgressStrip>("progressStrip")->IsBusy(); }));
  ASSERT_GT(found, 1);
  kernels::ParameterValues fewer = canvas_->method_values();
  ASSERT_EQ(fewer.Set(Spec("block-sparse"), "n_blocks", found - 1), "");
  ASSERT_TRUE(canvas_->SetMethod(QStringLiteral("block-sparse"), fewer));
  Settle();
  EXPECT_LT(canvas_->mask()->distribution.fifth_percentile, 0.5) << "one block fewer is too few";
}

TEST_F(MassPaneTest, MeetTargetIsUndoneInOneStepAndOfferedOnlyWhereThereIsABudget) {
  Open("block-sparse");
  QTest::qWait(static_cast<int>(ui::ParameterHistory::kOneDragMs) + 100);  // another step than the choice of the method
  const kernels::ParameterValues before = canvas_->method_values();
  QTest::keyClick(window_.get(), Qt::Key_T, Qt::ControlModifier);
  ASSERT_TRUE(WaitFor([&] { return !(canvas_->method_values() == before); }));
  Settle();
  QTest::keyClick(window_.get(), Qt::Key_Z, Qt::ControlModifier);
  EXPECT_TRUE(WaitFor([&] { return canvas_->method_values() == before; }));
  UseMethod("dense");
  EXPECT_FALSE(Find<QPushButton>("meetTarget")->isEnabled());
  EXPECT_FALSE(window_->commands()[Command::kMeetTarget]->isEnabled());
}

TEST_F(MassPaneTest, SearchStopsWhenItsMethodChanges) {
  Open("vertical-slash");
  window_->commands()[Command::kMeetTarget]->trigger();
  auto* button = Find<QPushButton>("meetTarget");
  ASSERT_EQ(button->text(), QStringLiteral("Cancel search"));
  UseMethod("a-shape");
  EXPECT_EQ(button->text(), QStringLiteral("Meet target"));
  QTest::qWait(300);
  EXPECT_EQ(canvas_->method(), QStringLiteral("a-shape"));
  EXPECT_EQ(canvas_->method_values(), kernels::ParameterValues(Spec("a-shape")));
}

TEST_F(MassPaneTest, NumbersComeWithTheOverlayOffAndTheTargetOutlivesTheWindow) {
  Open("sample-attention");
  QTest::keyClick(window_.get(), Qt::Key_O, Qt::ControlModifier | Qt::ShiftModifier);
  window_->state()->trial.SetTarget(0.8);
  Settle();
  ASSERT_NE(canvas_->mask(), nullptr);
  EXPECT_EQ(Find<QLabel>("belowTarget")->text(), ShareBelow(0.8));
  OpenWindow(trace_path());
  ASSERT_TRUE(WaitForCanvas());
  EXPECT_EQ(window_->canvas()->mass_target(), 0.8);
}

// In a low pane "1" and "10" lay on each other.
TEST(MassChartTest, CountsBesideTheBarsAreThoseThatHaveRoom) {
  analysis::MassDistribution mass;
  mass.bins[99] = 3414;
  mass.bins[50] = 1;
  mass.num_rows = 3415;
  ui::MassChart chart;
  chart.SetMass(mass, /*outdated=*/false);
  chart.SetLogarithmic(true);
  chart.resize(300, 500);
  EXPECT_EQ(chart.ShownCounts(), (std::vector<int64_t>{3414, 1, 10, 100, 1000}));
  chart.resize(chart.minimumSizeHint());
  const std::vector<int64_t> low = chart.ShownCounts();
  EXPECT_EQ(low.front(), 3414);
  EXPECT_EQ(std::count(low.begin(), low.end(), 1), 1);
  EXPECT_EQ(std::count(low.begin(), low.end(), 10), 0) << "a third of a line above 1";
}

// As the panel and tables have it: 16 steps of a decode method have no 5th percentile.
TEST(MassChartTest, OfFewQueriesThereIsNoPercentile) {
  analysis::MassDistribution mass;
  mass.bins[90] = mass.num_rows = analysis::kLeastQuantileRows - 1;
  ui::MassChart chart;
  chart.resize(500, 200);
  chart.SetMass(mass, /*outdated=*/false);
  EXPECT_EQ(chart.ShownNumbers(), (QStringList{QStringLiteral("min 0.000"), QStringLiteral("mean 0.000")}));
  mass.bins[90] = mass.num_rows = analysis::kLeastQuantileRows;
  chart.SetMass(mass, /*outdated=*/false);
  EXPECT_EQ(chart.ShownNumbers().size(), 3);
}

}  // namespace
}  // namespace headscope::gui_test
