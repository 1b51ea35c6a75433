// SPDX-License-Identifier: Apache-2.0
// Drives the real window by the events that a person's mouse would make, and takes the times.
#include "ui/window_bench.h"

#include <QApplication>
#include <QDockWidget>
#include <QElapsedTimer>
#include <QMouseEvent>
#include <QOpenGLContext>
#include <QOpenGLFunctions>
#include <QStatusBar>
#include <QTemporaryDir>
#include <QTimer>
#include <QToolBar>
#include <algorithm>
#include <cmath>
#include <limits>

#include "application_setup.h"
#include "main_window.h"
#include "notice_bar.h"
#include "ui_thread.h"

namespace headscope::ui {

double Times::Quantile(double share) const {
  if (ms.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> sorted = ms;
  std::sort(sorted.begin(), sorted.end());
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(at, 1, sorted.size()) - 1];
}

namespace {

constexpr int kOpenSeconds = 600;
// Steps of a slider in a row that a method refuses, such as budgets below what it always keeps.
constexpr int kMostRefused = 16;
constexpr double kPanPixels = 9;  // a frame: a hand's quick drag at 60 frames a second

double Since(const QElapsedTimer& timer) {
  return static_cast<double>(timer.nsecsElapsed()) * 1e-6;
}

// The first budget that decides something by default: one at the end of its range may leave that to another.
const kernels::ParameterSpec* SliderOf(const kernels::MethodSpec& spec) {
  const kernels::ParameterSpec* first = nullptr;
  for (const kernels::ParameterSpec& parameter : spec.parameters) {
    if (parameter.role == kernels::ParameterRole::kOther) continue;
    if (first == nullptr) first = &parameter;
    if (parameter.default_value > parameter.minimum && parameter.default_value < parameter.maximum) return &parameter;
  }
  return first;
}

class WindowBench {
 public:
  WindowBench(const WindowBenchOptions& options, const WorkbenchFactory& make_workbench)
      : options_(options),
        workbench_(make_workbench([this](std::function<void()> function) { ui_thread_.Post(std::move(function)); })) {}

  WindowBenchResult Run() {
    if (!Open()) return std::move(result_);
    for (const double share : {0.25, 1.0 / 32}) {
      if (!Pan(share)) return std::move(result_);
    }
    Live();
    return std::move(result_);
  }

 private:
  // Runs the event loop until `done`; false after so many seconds, or when the caller ends it.
  template <typename Done>
  bool WaitFor(const Done& done, double seconds) {
    // Sleeps between events, for a loop that spins would take a core from what is timed; the clock is looked at anyway.
    QTimer wake;
    wake.start(20);
    QElapsedTimer timer;
    timer.start();
    while (!done()) {
      if (Since(timer) > 1000 * seconds) return false;
      QApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents);
    }
    return true;
  }

  bool GoesOn(const std::string& stage) {
    options_.progress(stage);
    if (options_.stop.stop_requested()) result_.complete = false;
    return result_.complete;
  }

  bool Fail(const std::string& sentence) {
    result_.error = sentence;
    return false;
  }

  bool Open() {
    GoesOn("opening");
    QElapsedTimer timer;
    timer.start();
    window_ = std::make_unique<MainWindow>(workbench_.get(), folder_.filePath(QStringLiteral("session.json")));
    canvas_ = window_->canvas();
    // The map has the window for itself: what is timed is its drawing, at the size that is named.
    for (QDockWidget* dock : window_->findChildren<QDockWidget*>()) dock->hide();
    for (QToolBar* bar : window_->findChildren<QToolBar*>()) bar->hide();
    window_->menuBar()->hide();
    window_->statusBar()->hide();
    window_->resize(options_.width, options_.height);
    window_->show();
    if (!WaitFor([&] { return canvas_->frames_drawn() > 0; }, 60))
      return Fail("The window was not drawn within a minute: does OpenGL work on this display?");
    result_.window_ms = Since(timer);
    canvas_->makeCurrent();
    const GLubyte* renderer = QOpenGLContext::currentContext()->functions()->glGetString(GL_RENDERER);
    result_.renderer = renderer == nullptr ? "" : reinterpret_cast<const char*>(renderer);
    canvas_->doneCurrent();
    canvas_->SetPanelVisible(false);

    const QMetaObject::Connection arrived = QObject::connect(canvas_, &HeadCanvas::TilesArrived, canvas_, [&] {
      if (result_.picture_ms == 0) picture_due_ = true;
    });
    const QMetaObject::Connection swapped = QObject::connect(canvas_, &HeadCanvas::frameSwapped, canvas_, [&] {
      if (std::exchange(picture_due_, false)) result_.picture_ms = Since(timer);
    });
    QObject::connect(window_->store(), &HeadStore::TraceChanged, canvas_, [&] { result_.opened_ms = Since(timer); });
    timer.restart();
    window_->OpenPath(QString::fromStdString(options_.trace));
    QString refused;
    const QMetaObject::Connection said = QObject::connect(window_->findChild<NoticeBar*>(), &NoticeBar::Said, canvas_,
                                                          [&](const QString& sentence, bool is_error) {
                                                            if (is_error) refused = sentence;
                                                          });
    const auto is_refused = [&] { return !refused.isEmpty() && result_.opened_ms == 0; };
    const bool settled =
        WaitFor([&] { return is_refused() || (result_.picture_ms > 0 && canvas_->IsSettled()); }, kOpenSeconds);
    result_.settled_ms = Since(timer);
    QObject::disconnect(arrived);
    QObject::disconnect(swapped);
    QObject::disconnect(said);
    if (is_refused()) return Fail(refused.toStdString());
    if (!settled) return Fail(options_.trace + ": no picture within ten minutes; is it a trace with query rows?");
    // The statistics of all heads would compete with what is timed from here on.
    workbench_->CancelStatistics([] {});
    const TraceSummary& trace = window_->store()->trace();
    result_.num_tokens = trace.num_tokens;
    result_.num_rows = trace.num_rows;
    result_.num_heads = static_cast<int64_t>(trace.heads.size());
    result_.head_dim = trace.head_dim;
    return true;
  }

  void Send(QEvent::Type type, QPointF at, Qt::MouseButton button, Qt::MouseButtons buttons) {
    QMouseEvent event(type, at, canvas_->mapToGlobal(at), button, buttons, Qt::NoModifier);
    QApplication::sendEvent(canvas_, &event);
  }

  // Drags the map to and fro, a step a frame, with this share of its rows in view.
  bool Pan(double share) {
    if (!GoesOn("panning")) return false;
    const TraceSummary& trace = window_->store()->trace();
    const auto side = static_cast<int64_t>(std::max(64.0, share * static_cast<double>(trace.num_rows)));
    // About the diagonal's middle, where there is something on either side of it.
    const int64_t row = std::max<int64_t>(trace.num_rows / 2 - side / 2, 0);
    const int64_t column = std::max<int64_t>(trace.num_tokens / 2 - side, 0);
    canvas_->ZoomTo(row, std::min(row + side, trace.num_rows), column, std::min(column + side, trace.num_tokens));
    WaitFor([&] { return canvas_->IsSettled(); }, 120);
    PanTimes pan;
    pan.scores_per_pixel = canvas_->ScoresPerPixel();
    pan.level = canvas_->TileLevel();
    canvas_->SetTileWatch([&](double ms) { pan.tiles.ms.push_back(ms); });
    const QRectF map = canvas_->MapRect();
    QPointF at = map.center();
    Send(QEvent::MouseMove, at, Qt::NoButton, Qt::NoButton);
    WaitFor([&] { return canvas_->IsSettled(); }, 60);
    pan.tiles.ms.clear();
    Send(QEvent::MouseButtonPress, at, Qt::LeftButton, Qt::LeftButton);
    QPointF step(kPanPixels, kPanPixels);
    QElapsedTimer whole, frame;
    bool drawn = false;
    const QMetaObject::Connection swapped = QObject::connect(canvas_, &HeadCanvas::frameSwapped, canvas_, [&] {
      if (frame.isValid()) pan.frames.ms.push_back(Since(frame));
      frame.start();
      drawn = true;
    });
    whole.start();
    while (Since(whole) < 1000 * options_.pan_seconds) {
      at += step;
      if (!map.adjusted(40, 40, -40, -40).contains(at)) step = -step;
      drawn = false;
      Send(QEvent::MouseMove, at, Qt::NoButton, Qt::LeftButton);
      if (!WaitFor([&] { return drawn; }, 10)) break;
    }
    QObject::disconnect(swapped);
    Send(QEvent::MouseButtonRelease, at, Qt::LeftButton, Qt::NoButton);
    WaitFor([&] { return canvas_->IsSettled(); }, 60);
    canvas_->SetTileWatch({});
    result_.pans.push_back(std::move(pan));
    return true;
  }

  // Moves each method's first slider to and fro, one step after the other's mask is on the screen.
  void Live() {
    if (options_.live_steps == 0) return;
    canvas_->FitView();
    WaitFor([&] { return canvas_->IsSettled(); }, 120);
    for (const kernels::MethodSpec& spec : canvas_->methods()) {
      if (spec.baseline) continue;
      const kernels::ParameterSpec* const slider = SliderOf(spec);
      if (slider == nullptr) continue;
      if (!GoesOn("moving the slider of " + spec.name)) return;
      kernels::ParameterValues values = canvas_->ValuesOf(spec);
      if (!canvas_->SetMethod(QString::fromStdString(spec.name), values)) continue;
      const auto at_rest = [&] { return canvas_->ShowsAllFigures() && !canvas_->IsMaskPending(); };
      WaitFor(at_rest, 120);
      LiveTimes times{spec.name, slider->name, spec.phase, {}, {}, {}};
      double value = values.Real(slider->name);
      int direction = -1;
      bool mask_came = false;
      QElapsedTimer timer;
      const QMetaObject::Connection ready = QObject::connect(canvas_, &HeadCanvas::MaskReady, canvas_, [&] {
        if (!mask_came) times.masks.ms.push_back(Since(timer));
        mask_came = true;
      });
      for (int32_t taken = 0, refused = 0; taken < options_.live_steps && refused < kMostRefused;) {
        double next = SteppedValue(*slider, value, direction);
        if (next == value) next = SteppedValue(*slider, value, direction = -direction);
        if (const std::string illegal =
                next == value ? slider->name + " has one value" : values.Set(spec, slider->name, next);
            !illegal.empty()) {
          times.refusal = illegal;
          break;
        }
        value = next;
        mask_came = false;
        timer.start();
        canvas_->SetMethod(QString::fromStdString(spec.name), values);
        if (!WaitFor([&] { return (mask_came || !canvas_->IsMaskPending()) && at_rest(); }, 120)) {
          times.refusal = "a step took more than two minutes";
          break;
        }
        if (mask_came) {
          times.maps.ms.push_back(Since(timer));
          ++taken;
          refused = 0;
          continue;
        }
        // What is too little for the method is not further up.
        direction = 1;
        ++refused;
        times.refusal = canvas_->WhyNoMask();
      }
      if (std::ssize(times.maps.ms) == options_.live_steps) times.refusal.clear();
      QObject::disconnect(ready);
      result_.live.push_back(std::move(times));
    }
  }

  const WindowBenchOptions& options_;
  QTemporaryDir folder_;
  UiThread ui_thread_;
  const std::unique_ptr<Workbench> workbench_;
  std::unique_ptr<MainWindow> window_;
  HeadCanvas* canvas_ = nullptr;
  bool picture_due_ = false;
  WindowBenchResult result_;
};

}  // namespace

WindowBenchResult RunWindowBench(const WindowBenchOptions& options, const WorkbenchFactory& make_workbench) {
  int argc = 1;
  char name[] = "headscope";
  char* argv[] = {name, nullptr};
  PrepareApplication();
  QApplication application(argc, argv);
  NameApplication();
  return WindowBench(options, make_workbench).Run();
}

}  // namespace headscope::ui
