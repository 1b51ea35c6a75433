// SPDX-License-Identifier: Apache-2.0
// A measured run has the machine to itself: no frame of the window is drawn beside its repeats.
#include <gmock/gmock.h>

#include <QApplication>
#include <QElapsedTimer>
#include <QLabel>
#include <QScopeGuard>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "patience.h"
#include "screen_calm.h"
#include "set_repeats.h"
#include "shell_fixture.h"
#include "workbench/trace_workbench.h"

namespace headscope::gui_test {
namespace {

// Notes what is drawn between the moment that the run is told to go on and the next that anything is heard of it, which
// reaches the window as an event of `bell`.
class FrameWatch : public QObject {
 public:
  explicit FrameWatch(QObject* bell) : bell_(bell) { qApp->installEventFilter(this); }
  void Begin() {
    measuring_ = begun_ = true;
    since_.start();
  }
  void Stop() { qApp->removeEventFilter(this); }
  const std::vector<std::string>& frames() const { return frames_; }
  int heard() const { return heard_; }  // since the first Begin

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (watched == bell_) {
      measuring_ = false;
      heard_ += begun_ ? 1 : 0;
    } else if (measuring_ && (event->type() == QEvent::Paint || event->type() == QEvent::UpdateRequest)) {
      frames_.push_back(watched->objectName().toStdString() + " (" + watched->metaObject()->className() + ") after " +
                        std::to_string(since_.elapsed()) + " ms");
    }
    return false;
  }

 private:
  QObject* const bell_;
  bool measuring_ = false, begun_ = false;
  int heard_ = 0;
  QElapsedTimer since_;
  std::vector<std::string> frames_;
};

class QuietRunTest : public ShellTest {
 protected:
  QuietRunTest() : ShellTest(app::WorkbenchOptions().least_measured_ms) {}
};

TEST_F(QuietRunTest, NoFrameIsDrawnBesideTheRepeatsOfARun) {
  OpenWindow(ShippedTrace());
  ui::HeadCanvas* const canvas = window_->canvas();
  ASSERT_TRUE(WaitFor([&] { return window_->store()->HasTrace(); }));
  window_->commands()[ui::Command::kCancelWork]->trigger();
  ASSERT_TRUE(WaitForCanvas(60000));

  FrameWatch watch(&ui_thread_);
  auto* const calm = window_->findChild<ui::ScreenCalm*>();
  ASSERT_NE(calm, nullptr);
  int asked = 0, calm_stretches = 0;
  const auto reset = qScopeGuard([this] { workbench_->SetWhenDrawn({}); });
  workbench_->SetWhenDrawn([&](ui::Drawn what, std::function<void()> then) {
    ++asked;
    QElapsedTimer since;
    since.start();
    calm->Then(what, [&, then = std::move(then), since] {
      // A machine that draws too slowly to come to rest is not waited for.
      if (since.elapsed() < ui::ScreenCalm::kLongestMs) {
        ++calm_stretches;
        watch.Begin();
      }
      then();
    });
  });
  SetRepeats(canvas, 3);
  std::unique_ptr<analysis::MethodResult> result;
  QObject::connect(canvas, &ui::HeadCanvas::RunFinished, &watch,
                   [&](const analysis::MethodResult& run) { result = std::make_unique<analysis::MethodResult>(run); });
  window_->commands()[ui::Command::kRun]->trigger();
  ASSERT_TRUE(WaitFor([&] { return result != nullptr; }, 120000)) << Find<QLabel>("noticeText")->text().toStdString();
  watch.Stop();

  EXPECT_THAT(watch.frames(), ::testing::IsEmpty());
  EXPECT_GE(asked, 2) << "before the first repeat, and after what is told of the later ones";
  if (Patience() == 1) {
    EXPECT_GT(calm_stretches, 0);
    // A report, then the question when it is drawn; at the end the result; from nobody else a word.
    EXPECT_EQ(watch.heard(), 2 * (asked - 1) + 1);
  }
  // Short stretches are repeated, in turn with dense, until their medians mean something.
  double together_ms = 0;
  for (const analysis::Timing& timing : {result->attend, result->dense_attend}) {
    EXPECT_GE(timing.repeats, 3);
    together_ms += timing.repeats * timing.median_ms;
  }
  EXPECT_TRUE(together_ms > 150 || result->attend.repeats >= 500)
      << result->attend.repeats << " of " << together_ms << " ms together";
}

// A pass over a long head keeps tiles on their way for seconds: a live run is timed after it, however long it takes,
// and a measured one has waited for long enough.
TEST_F(QuietRunTest, TilesOnTheirWayAreWaitedForByWhoAsksForThem) {
  QWidget window;
  bool tile_due = true, frames_drawn = false, tiles_drawn = false;
  ui::ScreenCalm calm(&window, [&](ui::Drawn what) { return what == ui::Drawn::kTiles && tile_due; });
  calm.Then(ui::Drawn::kTiles, [&] { tiles_drawn = true; });
  QElapsedTimer since;
  since.start();
  ASSERT_TRUE(WaitFor([&] { return since.elapsed() > ui::ScreenCalm::kLongestMs + 200; }));
  EXPECT_FALSE(tiles_drawn);
  calm.Then(ui::Drawn::kFrames, [&] { frames_drawn = true; });
  ASSERT_TRUE(WaitFor([&] { return frames_drawn; }));
  EXPECT_FALSE(tiles_drawn);
  tile_due = false;
  EXPECT_TRUE(WaitFor([&] { return tiles_drawn; }));
}

}  // namespace
}  // namespace headscope::gui_test
