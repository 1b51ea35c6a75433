// SPDX-License-Identifier: Apache-2.0
// From the drag of a parameter's slider to the mask, the kept fraction, the kept mass and the kernel's own run of the
// new value on the screen, by the wall clock, on the shipped trace.
//
// By hand, on a quiet machine, with any other trace (see HEADSCOPE_TEST_TRACE below):
//   HEADSCOPE_TEST_TRACE=long.h5 HEADSCOPE_TEST_DRAGS=20 xvfb-run -a gui_shell_test --gtest_filter=LiveMaskTest.*
#include <QApplication>
#include <QElapsedTimer>
#include <QMouseEvent>
#include <QPushButton>
#include <QSignalSpy>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>
#include <optional>
#include <vector>

#include "patience.h"
#include "shell_fixture.h"

namespace headscope::gui_test {
namespace {

// What the suite holds a drag on the shipped trace against: time of the process on all cores, which a busy machine
// hardly changes. The requirement, 150 ms by the wall clock at 4K tokens and 1 s at 16K on 2 quiet cores, leaves 300
// ms.
constexpr double kMostCpuMs = 1000;

class LiveMaskTest : public ShellTest {
 protected:
  void OpenHead() {
    const QString other = qEnvironmentVariable("HEADSCOPE_TEST_TRACE");
    OpenWindow(other.isEmpty() ? ShippedTrace() : other);
    ASSERT_TRUE(WaitFor([&] { return window_->store()->HasTrace(); }));
    window_->commands()[ui::Command::kCancelWork]->trigger();  // the statistics, which take every core
    canvas_ = window_->canvas();
    ASSERT_TRUE(WaitForCanvas(60000));
  }

  // Qt's own mouseMove warps the display's pointer, whose event comes some time later; this one comes now.
  void MoveTo(QPointF at, Qt::MouseButtons held) {
    QMouseEvent event(QEvent::MouseMove, at, canvas_->mapToGlobal(at), Qt::NoButton, held, Qt::NoModifier);
    QApplication::sendEvent(canvas_, &event);
  }

  // The panel and the map show the present parameters: their mask has come with every tile of it, and the frame that
  // draws them is done.
  bool ShowsPresentValue() const { return shown_ == PresentParameters() && canvas_->ShowsAllFigures(); }
  std::string PresentParameters() const {
    for (const kernels::MethodSpec& spec : workbench_->methods()) {
      if (QString::fromStdString(spec.name) == canvas_->method()) return canvas_->method_values().ToString(spec);
    }
    return {};
  }

  struct DragTime {
    double wall_ms = 0, cpu_ms = 0;
    double dock_ms = 0;  // until the dock of the kept mass has the new numbers
  };
  // Times of `count` drags of one slider, each to another place of it.
  std::vector<DragTime> Drag(const QString& method, const std::string& parameter, int count) {
    const auto& methods = workbench_->methods();
    const auto spec = std::find_if(methods.begin(), methods.end(),
                                   [&](const auto& candidate) { return candidate.name == method.toStdString(); });
    EXPECT_NE(spec, methods.end()) << method.toStdString();
    if (spec == methods.end()) return {};
    const auto receive = [this](const ui::LiveMask& mask) { shown_ = mask.summary.parameters; };
    const auto connection = QObject::connect(canvas_, &ui::HeadCanvas::MaskReady, canvas_, receive);
    // The dock listens to the same signal and was there first: it holds the mask's numbers when this is called.
    auto* const worst = Find<QPushButton>("worstQuery");
    QElapsedTimer timer;
    double dock_ms = -1;
    const auto see_dock = [&] {
      if (dock_ms >= 0 || !timer.isValid() || canvas_->mask() == nullptr || canvas_->IsMaskPending()) return;
      if (canvas_->mask()->summary.parameters != PresentParameters()) return;
      const analysis::MaskSummary& summary = canvas_->mask()->summary;
      const QString query = summary.kept_fraction < 1 ? QString::number(summary.worst_row) : QStringLiteral("none");
      EXPECT_TRUE(worst->text().endsWith(u' ' + query)) << worst->text().toStdString();
      dock_ms = static_cast<double>(timer.nsecsElapsed()) * 1e-6;
    };
    const auto dock_connection = QObject::connect(canvas_, &ui::HeadCanvas::MaskStateChanged, canvas_, see_dock);
    canvas_->SetMethod(method, kernels::ParameterValues(*spec));
    EXPECT_TRUE(WaitForCanvas(60000));
    const QRectF slider = canvas_->PanelControl(QString::fromStdString(parameter));
    EXPECT_FALSE(slider.isNull()) << method.toStdString() << " has no slider " << parameter;
    if (slider.isNull()) return {};

    const auto place = [&](double share) {
      return QPointF(slider.left() + slider.width() * share, slider.center().y());
    };
    MoveTo(place(0.5), Qt::NoButton);
    QTest::mousePress(canvas_, Qt::LeftButton, {}, place(0.5).toPoint());
    EXPECT_TRUE(WaitForCanvas());
    std::vector<DragTime> times;
    for (int drag = 0; drag < count; ++drag) {
      const double before = canvas_->method_values().Real(parameter);
      const int64_t frames = canvas_->frames_drawn();
      const std::clock_t cpu = std::clock();
      dock_ms = -1;
      timer.start();
      MoveTo(place(0.25 + 0.5 * ((drag * 7) % 10) / 10), Qt::LeftButton);
      EXPECT_TRUE(WaitFor([&] { return canvas_->frames_drawn() > frames && ShowsPresentValue(); }, 60000));
      const double wall_ms = static_cast<double>(timer.nsecsElapsed()) * 1e-6;
      const double cpu_ms = static_cast<double>(std::clock() - cpu) * 1e3 / CLOCKS_PER_SEC;
      EXPECT_TRUE(WaitFor([&] { return dock_ms >= 0; })) << "the dock of the kept mass did not follow";
      times.push_back({wall_ms, cpu_ms, dock_ms});
      EXPECT_NE(canvas_->method_values().Real(parameter), before) << parameter << " did not move";
    }
    QTest::mouseRelease(canvas_, Qt::LeftButton, {}, place(0.5).toPoint());
    QObject::disconnect(connection);
    QObject::disconnect(dock_connection);
    return times;
  }

  ui::HeadCanvas* canvas_ = nullptr;
  std::string shown_;  // parameters of the mask that came last
};

TEST_F(LiveMaskTest, FollowsASliderOfEveryMethod) {
  OpenHead();
  const int count = std::max(3, qEnvironmentVariableIntValue("HEADSCOPE_TEST_DRAGS"));
  for (const auto& [method, parameter] : {std::pair{"a-shape", "n_local"},
                                          {"vertical-slash", "n_slash"},
                                          {"block-sparse", "n_blocks"},
                                          {"sample-attention", "alpha_c"},
                                          {"sparq", "k"}}) {
    const std::vector<DragTime> times = Drag(QLatin1String(method), parameter, count);
    ASSERT_FALSE(times.empty()) << method;
    ASSERT_TRUE(WaitForCanvas(60000)) << "and then the times";
    const auto sorted = [&](double DragTime::*member) {
      std::vector<double> values;
      for (const DragTime& time : times) values.push_back(time.*member);
      std::sort(values.begin(), values.end());
      return values;
    };
    const std::optional<analysis::LiveRun>& live = window_->state()->trial.live();
    EXPECT_TRUE(live) << method << ": " << window_->state()->trial.live_error();
    const std::vector<double> wall = sorted(&DragTime::wall_ms), cpu = sorted(&DragTime::cpu_ms),
                              dock = sorted(&DragTime::dock_ms);
    std::printf(
        "%lld tokens, %s %s: mask, CRA and error (of a run of %.1f ms, dense %.1f ms) on the screen %.1f ms after "
        "the drag (median of %zu; slowest %.1f ms; %.1f ms of processor time), the dock of the kept mass after %.1f ms "
        "(slowest %.1f ms)\n",
        static_cast<long long>(window_->store()->trace().num_tokens), method, parameter, live ? live->attend_ms : -1,
        live ? live->dense_attend_ms : -1, wall[wall.size() / 2], wall.size(), wall.back(), cpu[cpu.size() / 2],
        dock[dock.size() / 2], dock.back());
    if (qEnvironmentVariableIsEmpty("HEADSCOPE_TEST_TRACE")) {
      EXPECT_LT(cpu[cpu.size() / 2], kMostCpuMs * Patience()) << method;
    }
  }
}

// Of head 4:3 with SampleAttention the panel showed 11.9 ms against 23.6, a ratio of 2.0, and `compare` beside it 9.6
// against 12.3. Both are taken in turn, so that what else the machine does meets both, and only adds: the least counts.
TEST_F(LiveMaskTest, TheTimesBesideTheSlidersAreThoseOfAMeasuredRun) {
  OpenHead();
  canvas_->RestoreViewState({{QStringLiteral("repeats"), 3}, {QStringLiteral("measures_alone"), true}});
  const kernels::MethodSpec& spec = *window_->state()->FindMethod(QStringLiteral("sample-attention"));
  const ui::MethodTrial& trial = window_->state()->trial;
  // What differs always does so in every series; on a busy machine one of them may.
  constexpr int kSeries = 4, kPairs = 6;
  constexpr double kApart = 1.6, kNone = std::numeric_limits<double>::infinity();
  bool same = false;
  for (int series = 0; series < kSeries && !same; ++series) {
    double dense = kNone, method = kNone, dense_measured = kNone, method_measured = kNone;
    for (int pair = 0; pair < kPairs; ++pair) {
      kernels::ParameterValues values(spec);
      ASSERT_EQ(values.Set(spec, "alpha_c", pair % 2 == 0 ? 0.9 : 0.95), "");
      canvas_->SetMethod(QStringLiteral("sample-attention"), values);
      ASSERT_TRUE(WaitForCanvas(60000));
      ASSERT_TRUE(trial.live() && trial.live()->is_timed()) << trial.live_error();
      const analysis::LiveRun live = *trial.live();
      const int64_t runs = trial.num_results();
      canvas_->RunMethod();
      ASSERT_TRUE(WaitFor([&] { return trial.num_results() > runs; }, 60000)) << trial.run_error();
      dense = std::min(dense, live.dense_attend_ms);
      method = std::min(method, live.attend_ms);
      dense_measured = std::min(dense_measured, trial.result()->dense_attend.median_ms);
      method_measured = std::min(method_measured, trial.result()->attend.median_ms);
    }
    std::printf(
        "least of %d medians of three: dense %.2f ms beside the sliders, %.2f of a run; the method %.2f, %.2f\n",
        kPairs, dense, dense_measured, method, method_measured);
    const auto alike = [](double one, double other) { return one < kApart * other && other < kApart * one; };
    same = alike(dense, dense_measured) && alike(method, method_measured);
  }
  EXPECT_TRUE(same);
}

// The output that follows the slider is the one that a run measures.
TEST_F(LiveMaskTest, TheErrorBesideTheSlidersIsThatOfAMeasuredRun) {
  OpenHead();
  canvas_->RestoreViewState({{QStringLiteral("repeats"), 1}, {QStringLiteral("measures_alone"), true}});
  const ui::MethodTrial& trial = window_->state()->trial;
  for (const char* method : {"vertical-slash", "sparq"}) {
    canvas_->SetMethod(QLatin1String(method), canvas_->ValuesOf(*window_->state()->FindMethod(QLatin1String(method))));
    ASSERT_TRUE(WaitForCanvas(60000));
    ASSERT_TRUE(trial.live()) << trial.live_error();
    const analysis::LiveRun live = *trial.live();
    EXPECT_FALSE(canvas_->PanelControl(QStringLiteral("live_result")).isNull());
    const int64_t runs = trial.num_results();
    canvas_->RunMethod();
    ASSERT_TRUE(WaitFor([&] { return trial.num_results() > runs; }, 60000)) << trial.run_error();
    EXPECT_NEAR(live.relative_error, trial.result()->relative_error, 1e-6) << method;
    EXPECT_NEAR(live.max_error, trial.result()->max_error, 1e-6) << method;
    EXPECT_EQ(live.checked_rows, trial.result()->num_rows) << method;
  }
}

// A method that was timed on a quiet machine stood beside dense attention that was timed beside the statistics: "2.0x".
TEST_F(LiveMaskTest, WhatRanBesideTheStatisticsRunsAgainWhenTheyAreStopped) {
  OpenWindow(ShippedTrace());
  const ui::MethodTrial& trial = window_->state()->trial;
  ASSERT_TRUE(WaitFor([&] { return trial.live().has_value() && !trial.live_pending(); }, 60000)) << trial.live_error();
  ASSERT_FALSE(window_->store()->HasAllStatistics());
  bool runs_again = false;
  const QObject watch;
  QObject::connect(&trial, &ui::MethodTrial::Changed, &watch, [&] { runs_again = runs_again || trial.live_pending(); });
  window_->commands()[ui::Command::kCancelWork]->trigger();
  EXPECT_TRUE(WaitFor([&] { return runs_again; }, 60000));
  ASSERT_TRUE(WaitForCanvas(60000));
  ASSERT_TRUE(trial.live()) << trial.live_error();
  EXPECT_GT(trial.live()->rounds, 0) << "and dense attention with it";
}

TEST_F(LiveMaskTest, NoKernelFollowsWhereThatIsSwitchedOff) {
  OpenHead();
  window_->resize(1400, 940);  // the switch is at the end of the panel, which scrolls in a lower window
  ASSERT_TRUE(WaitForCanvas(60000));
  ASSERT_TRUE(window_->state()->trial.live());
  // On a busy machine the panel may have moved between the look at it and the click: then one looks again.
  // The switch is asked, and not what follows it, which may take long: a second click would switch it on again.
  const auto switched_off = [&] { return !canvas_->DisplayState()[QStringLiteral("live_runs")].toBool(); };
  ASSERT_FALSE(switched_off());
  for (int attempt = 0; attempt < 3 && !switched_off(); ++attempt) {
    const QRectF box = canvas_->PanelControl(QStringLiteral("live"));
    ASSERT_FALSE(box.isNull());
    QTest::mouseClick(canvas_, Qt::LeftButton, {}, QPointF(box.left() + 8, box.center().y()).toPoint());
    ASSERT_TRUE(WaitForCanvas(60000));
  }
  ASSERT_TRUE(switched_off());
  ASSERT_TRUE(WaitFor([&] { return !window_->state()->trial.live(); }, 60000));
  canvas_->StepMethod(1);
  ASSERT_TRUE(WaitForCanvas(60000));
  EXPECT_FALSE(window_->state()->trial.live());
  EXPECT_TRUE(canvas_->PanelControl(QStringLiteral("live_result")).isNull());
}

// A hand that does not stop: the pointer moves faster than masks are made, and masks still come.
TEST_F(LiveMaskTest, MasksComeWhileTheSliderIsStillMoving) {
  OpenHead();
  const QRectF slider = canvas_->PanelControl(QStringLiteral("alpha_c"));
  ASSERT_FALSE(slider.isNull()) << canvas_->method().toStdString();
  QSignalSpy masks(canvas_, &ui::HeadCanvas::MaskReady);
  const auto place = [&](double share) { return QPointF(slider.left() + slider.width() * share, slider.center().y()); };
  MoveTo(place(0.5), Qt::NoButton);
  QTest::mousePress(canvas_, Qt::LeftButton, {}, place(0.5).toPoint());
  QElapsedTimer timer;
  timer.start();
  int moves = 0;
  while (timer.elapsed() < 3000 * Patience()) {
    MoveTo(place(0.3 + 0.4 * (moves++ % 100) / 100), Qt::LeftButton);
    QTest::qWait(4);
  }
  const qsizetype while_moving = masks.count();
  QTest::mouseRelease(canvas_, Qt::LeftButton, {}, place(0.5).toPoint());
  EXPECT_GE(while_moving, 3) << "of " << moves << " moves";
  ASSERT_TRUE(WaitForCanvas(60000));
  const auto last = masks.back()[0].value<ui::LiveMask>();
  EXPECT_EQ(last.summary.parameters, PresentParameters()) << "what is left on show belongs to where the hand stopped";
}

}  // namespace
}  // namespace headscope::gui_test
