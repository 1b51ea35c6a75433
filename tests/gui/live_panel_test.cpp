// SPDX-License-Identifier: Apache-2.0
// The panel over the map by mouse and keys: decode methods, runs, narrow canvases, the keyboard; and what the canvas
// draws beside the map: marks, the lanes of decode steps, the scales of the profiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <QLineEdit>
#include <QSignalSpy>
#include <QVBoxLayout>

#include "canvas_commands.h"
#include "canvas_fixture.h"
#include "canvas_layout.h"

namespace headscope::ui {
namespace {

class LivePanelTest : public HeadCanvasTest {
 protected:
  void Press(int key, Qt::KeyboardModifiers modifiers = {}) {
    QTest::keyClick(canvas_.get(), static_cast<Qt::Key>(key), modifiers);
    Settle();
  }
  // Tab until the control has the focus.
  void TabTo(const QString& name) {
    for (int press = 0; press < 30 && canvas_->FocusedControl() != name; ++press)
      QTest::keyClick(canvas_.get(), Qt::Key_Tab);
    Settle();
    ASSERT_EQ(canvas_->FocusedControl(), name);
  }
  int Value(const char* name) const { return canvas_->method_values().Integer(name); }
  QColor Pixel(QPointF at) const { return ColorAt(canvas_->grabFramebuffer(), at); }
  CanvasLayout Layout(bool steps) const {
    return LayOutCanvas(canvas_->width(), canvas_->height(), {.profiles = true, .steps = steps});
  }
};

// --- Decode methods ---

TEST_F(LivePanelTest, ADecodeMethodIsPickedDraggedSeenAndMeasured) {
  Show();
  ClickControl("method");
  ClickControl("method:newest");
  EXPECT_EQ(canvas_->method(), "newest");
  QTest::qWait(30);
  ASSERT_NE(canvas_->mask(), nullptr);
  const double kept = canvas_->mask()->summary.kept_fraction;
  EXPECT_LT(kept, 0.1);
  EXPECT_FALSE(canvas_->PanelControl("steps").isNull());
  // "selected in .. ms per step" pushed it out of the panel.
  EXPECT_LT(canvas_->PanelControl("worst").right(), canvas_->PanelControl("panel").right());

  // Drag: more keys are kept.
  const QRectF slider = canvas_->PanelControl("local");
  const QPoint from = slider.center().toPoint(), to(static_cast<int>(slider.right()) + 40, from.y());
  MoveTo(from);
  QTest::mousePress(canvas_.get(), Qt::LeftButton, {}, from);
  MoveTo(to, Qt::LeftButton);
  QTest::mouseRelease(canvas_.get(), Qt::LeftButton, {}, to);
  Settle();
  EXPECT_EQ(Value("local"), 600) << "the slider ends with the trace";
  EXPECT_EQ(canvas_->mask()->summary.kept_fraction, 1);
  KeepPicture("canvas_decode_steps");

  QSignalSpy finished(canvas_.get(), &HeadCanvas::RunFinished);
  ClickControl("run");
  ASSERT_TRUE(QTest::qWaitFor([&] { return finished.size() == 1; }, 2000));
  EXPECT_EQ(workbench_.last_method, "newest");
}

// What comes while nobody touches the window, as the sentence of a run that does not follow the slider.
TEST_F(LivePanelTest, ThePanelFitsWhatComesByItself) {
  Show();
  workbench_.SetPoster([](std::function<void()> act) { QTimer::singleShot(150, qApp, std::move(act)); });
  workbench_.fail_next_live_run = true;
  kernels::ParameterValues values(workbench_.methods().back());
  ASSERT_EQ(values.Set(workbench_.methods().back(), "local", 100), "");
  ASSERT_TRUE(canvas_->SetMethod("newest", values));
  QTest::qWait(100);
  const double before = canvas_->PanelControl("panel").height();
  ASSERT_TRUE(QTest::qWaitFor([&] { return !workbench_.fail_next_live_run; }, 5000));
  QTest::qWait(400);
  Settle();
  EXPECT_NE(canvas_->PanelControl("panel").height(), before) << "there is something to fit";
  EXPECT_LE(canvas_->PanelControl("display").bottom(), canvas_->PanelControl("panel").bottom());
}

// A parameter that is one of several names: picked from a list, by the mouse or the keys.
TEST_F(LivePanelTest, AChoiceIsPickedByItsName) {
  Show();
  ASSERT_TRUE(canvas_->SetMethod("newest", kernels::ParameterValues(workbench_.methods().back())));
  Settle();
  ClickControl("order");
  ClickControl("order:at random");
  EXPECT_EQ(Value("order"), 2);
  EXPECT_EQ(canvas_->method_values().ToString(workbench_.methods().back()), "local=32,order=at random");
  EXPECT_TRUE(canvas_->PanelControl("order:at random").isNull()) << "the list stays open";
  TabTo("order");
  Press(Qt::Key_Left);
  EXPECT_EQ(Value("order"), 1);
  Press(Qt::Key_Home);
  EXPECT_EQ(Value("order"), 0);
  KeepPicture("canvas_choice");
}

// Below the map each step has a lane with the kept keys in it; on the map itself its row is greyed, other rows are not.
TEST_F(LivePanelTest, StepsHaveLanesBelowTheMapAndRowsOnIt) {
  Show();
  canvas_->SetPanelVisible(false);
  kernels::ParameterValues values(workbench_.methods().back());
  ASSERT_EQ(values.Set(workbench_.methods().back(), "local", 100), "");
  ASSERT_TRUE(canvas_->SetMethod("newest", values));
  canvas_->FitView();
  Settle();
  const PixelRect lanes = Layout(true).steps;
  const double lane = (lanes.height - 2) / testing::FakeWorkbench::kSteps;  // inside the frame
  for (const int step : {0, 8, 15}) {
    const double y = lanes.y + 1 + lane * (step + 0.4);
    const int64_t position = kTokens - testing::FakeWorkbench::kSteps + step;
    const double kept = canvas_->PixelOf(0, position - 50).x(), dropped = canvas_->PixelOf(0, position - 150).x();
    EXPECT_GT(Pixel({kept, y}).blue(), 200) << step;
    EXPECT_LT(Pixel({dropped, y}).blue(), 80) << step;
  }
  canvas_->ZoomTo(570, 600, 480, 510);
  Settle();
  const auto is_grey = [&](int64_t row, int64_t column) {
    const QColor color = Pixel(canvas_->PixelOf(row, column));
    return color.red() == color.green() && color.green() == color.blue();
  };
  EXPECT_TRUE(is_grey(590, 488)) << "102 keys back";
  EXPECT_FALSE(is_grey(590, 495)) << "95 keys back";
  EXPECT_FALSE(is_grey(580, 481)) << "not a step";
  KeepPicture("canvas_decode_rows");
}

TEST_F(LivePanelTest, ZoomToTheStepsShowsTheirRows) {
  Show();
  ASSERT_TRUE(canvas_->SetMethod("newest", kernels::ParameterValues(workbench_.methods().back())));
  Settle();
  ClickControl("steps");
  EXPECT_LT(ScoresPerPixel(), 1.0 / 15);
  const QRectF shown(0, 0, canvas_->width(), canvas_->height());
  EXPECT_TRUE(shown.contains(canvas_->PixelOf(kTokens - testing::FakeWorkbench::kSteps, kTokens - 8)));
  EXPECT_TRUE(shown.contains(canvas_->PixelOf(kTokens - 1, kTokens - 1)));
}

// --- Runs ---

TEST_F(LivePanelTest, ARunShowsHowFarItIsAndItsNote) {
  Show();
  workbench_.hold_run = true;
  QSignalSpy progressed(canvas_.get(), &HeadCanvas::RunProgressed);
  ClickControl("run");
  ASSERT_TRUE(QTest::qWaitFor([&] { return progressed.size() == 1; }, 2000));
  Settle();
  EXPECT_EQ(progressed[0][0].value<ProgressReport>().stage, "dense attends, 1 of 2");
  // Half of the bar is filled.
  const QRectF bar = canvas_->PanelControl("progress");
  const auto filled = [&](double share) {
    const QColor color = Pixel({bar.left() + bar.width() * share, bar.center().y()});
    return color.red() > color.blue();
  };
  EXPECT_TRUE(filled(0.3));
  EXPECT_FALSE(filled(0.7));
  ClickControl("cancel");
  EXPECT_TRUE(canvas_->PanelControl("cancel").isNull());

  workbench_.hold_run = false;
  workbench_.run_note = "selection ran on the CPU: this GPU has no selector for the method";
  ClickControl("run");
  Settle();
  EXPECT_FALSE(canvas_->PanelControl("note").isNull());
  KeepPicture("canvas_run_note");
}

// A run that is opened again shows its own figures; those of the method that was measured last used to stay.
TEST_F(LivePanelTest, AnOpenedRunShowsItsOwnFigures) {
  Show();
  QSignalSpy finished(canvas_.get(), &HeadCanvas::RunFinished);
  ClickControl("run");
  ASSERT_TRUE(QTest::qWaitFor([&] { return finished.size() == 1; }, 2000));
  Settle();
  analysis::MethodResult opened = finished[0][0].value<analysis::MethodResult>();
  opened.note = "of another day";
  EXPECT_TRUE(canvas_->PanelControl("note").isNull());
  canvas_->ShowResult(opened);
  Settle();
  EXPECT_FALSE(canvas_->PanelControl("note").isNull());
  opened.head = {.layer = 0, .head = 1};
  opened.note.clear();
  canvas_->ShowResult(opened);
  Settle();
  EXPECT_FALSE(canvas_->PanelControl("note").isNull()) << "of another head: nothing changes";
}

// --- Where the panel is ---

TEST_F(LivePanelTest, ThePanelCannotBeDraggedOffTheCanvasAndResetBringsItBack) {
  Show();
  const QRectF first = canvas_->PanelControl("panel");
  ASSERT_FALSE(first.isNull());
  const QRectF canvas(QPointF(0, 0), QSizeF(canvas_->size()));
  for (const QPointF far : {QPointF(canvas.right() + 300, 60), QPointF(-500, 60), QPointF(300, canvas.bottom() + 400),
                            QPointF(canvas.right() + 300, canvas.bottom() + 400)}) {
    const QRectF panel = canvas_->PanelControl("panel");
    const QPointF title(panel.center().x(), panel.top() + 8);
    MoveTo(title);
    QTest::mousePress(canvas_.get(), Qt::LeftButton, {}, title.toPoint());
    Settle();
    for (const double share : {0.5, 1.0}) {
      MoveTo(title + (far - title) * share, Qt::LeftButton);
      Settle();
    }
    QTest::mouseRelease(canvas_.get(), Qt::LeftButton, {}, far.toPoint());
    Settle();
    const QRectF shown = canvas_->PanelControl("panel");
    EXPECT_TRUE(canvas.adjusted(-1, -1, 1, 1).contains(shown))
        << shown.left() << ", " << shown.top() << " to " << shown.right() << ", " << shown.bottom();
    EXPECT_NE(shown.topLeft(), first.topLeft()) << "it was moved";
  }
  canvas_->ResetPanel();
  Settle();
  EXPECT_EQ(canvas_->PanelControl("panel"), first);
  // Rolled up by hand and hidden: the same.
  ClickControl("roll");
  canvas_->SetPanelVisible(false);
  Settle();
  canvas_->ResetPanel();
  Settle();
  EXPECT_EQ(canvas_->PanelControl("panel"), first);
}

// --- Narrow canvases ---

TEST_F(LivePanelTest, OnANarrowCanvasThePanelIsRolledUpUntilItIsOpened) {
  Show({560, 480});
  EXPECT_LT(canvas_->PanelControl("panel").height(), 30);
  EXPECT_TRUE(canvas_->PanelControl("run").isNull());
  KeepPicture("canvas_narrow");
  ClickControl("roll");
  EXPECT_FALSE(canvas_->PanelControl("run").isNull());
  canvas_->resize(1240, 700);
  Settle();
  canvas_->resize(560, 480);
  Settle();
  EXPECT_FALSE(canvas_->PanelControl("run").isNull()) << "opened by hand, it stays open";
}

TEST_F(LivePanelTest, AWiderCanvasUnrollsThePanelAgain) {
  Show({560, 480});
  EXPECT_TRUE(canvas_->PanelControl("run").isNull());
  canvas_->resize(1240, 700);
  Settle();
  EXPECT_FALSE(canvas_->PanelControl("run").isNull());
}

// In half of a small window the panel is wider than its canvas. Moved by the edges, it counted as put there by hand,
// and lay over the axes' names from then on.
TEST_F(LivePanelTest, AfterACanvasNarrowerThanItThePanelHasItsPlaceAgain) {
  Show({1240, 700});
  const QRectF before = canvas_->PanelControl("panel");
  canvas_->resize(260, 300);
  Settle();
  canvas_->resize(1240, 700);
  Settle();
  EXPECT_EQ(canvas_->PanelControl("panel"), before);
  EXPECT_GT(before.left(), canvas_->MapRect().right());
}

// What it shows scrolls while it is low, and no longer once there is room: without waiting for the pointer to move.
TEST_F(LivePanelTest, ATallerCanvasGivesThePanelItsRoomAtOnce) {
  // So narrow that the map stays as large as it is: tiles that come would bring frames of their own.
  Show({520, 440});
  ClickControl("roll");
  ASSERT_FALSE(canvas_->PanelControl("method").isNull());
  const double low = canvas_->PanelControl("panel").height();
  const int64_t before = canvas_->frames_drawn();
  canvas_->resize(520, 900);
  Settle();
  // One lays it out anew, the next shows it at the height that it has taken.
  EXPECT_GE(canvas_->frames_drawn() - before, 3);
  const double tall = canvas_->PanelControl("panel").height();
  EXPECT_GT(tall, low);
  for (const int x : {20, 25, 30}) {
    QTest::mouseMove(canvas_.get(), {x, 600});
    Settle();
  }
  EXPECT_EQ(canvas_->PanelControl("panel").height(), tall);
}

TEST_F(LivePanelTest, TheResultOfARunIsInSightOnASmallCanvas) {
  Show({700, 420});
  ClickControl("roll");
  canvas_->RunMethod();  // as the menu does; the button is below the fold
  ASSERT_TRUE(QTest::qWaitFor([&] { return !canvas_->PanelControl("result").isNull(); }, 2000));
  Settle();
  const QRectF result = canvas_->PanelControl("result"), panel = canvas_->PanelControl("panel");
  EXPECT_GE(result.top(), panel.top());
  EXPECT_LE(result.bottom(), panel.bottom());
  EXPECT_GT(result.height(), 9 * 15) << "every row of it";
  KeepPicture("canvas_small_result");
}

// --- Keys ---

TEST_F(LivePanelTest, TabGoesThroughThePanelAndArrowsMoveItsControls) {
  Show();
  canvas_->setFocus();
  EXPECT_EQ(canvas_->FocusedControl(), "");
  TabTo("method");
  Press(Qt::Key_Down);
  EXPECT_EQ(canvas_->method(), "newest");
  Press(Qt::Key_Up);
  EXPECT_EQ(canvas_->method(), "band");
  TabTo("window");
  Press(Qt::Key_Right);
  EXPECT_EQ(Value("window"), 128);
  Press(Qt::Key_Left);
  Press(Qt::Key_Left);
  EXPECT_EQ(Value("window"), 32);
  Press(Qt::Key_Home);
  EXPECT_EQ(Value("window"), 1);
  Press(Qt::Key_End);
  EXPECT_EQ(Value("window"), 600) << "the tokens of the trace";
  TabTo("exact");
  Press(Qt::Key_Space);
  EXPECT_TRUE(canvas_->method_values().Flag("exact"));
  TabTo("defaults");
  Press(Qt::Key_Return);
  EXPECT_EQ(Value("window"), 64);
  TabTo("overlay");
  Press(Qt::Key_Space);
  EXPECT_FALSE(canvas_->overlay());
  QSignalSpy requested(canvas_.get(), &HeadCanvas::RunRequested);
  TabTo("run");
  Press(Qt::Key_Return);
  EXPECT_EQ(requested.size(), 1);
  TabTo("display");
  Press(Qt::Key_Return);
  TabTo("scale");
  Press(Qt::Key_Right);
  EXPECT_EQ(canvas_->scale(), ColorScale::kLinear);
  TabTo("reduction");
  Press(Qt::Key_Space);
  EXPECT_EQ(canvas_->reduction(), analysis::TileReduction::kMean);
  KeepPicture("canvas_panel_keys");

  // Esc gives the arrows back to the map.
  Press(Qt::Key_Escape);
  EXPECT_EQ(canvas_->FocusedControl(), "");
  canvas_->GoTo(300, 250);
  Settle();
  const double column = CenterColumn();
  Press(Qt::Key_Right);
  EXPECT_GT(CenterColumn(), column);
}

TEST_F(LivePanelTest, TabLeavesThePanelAtItsEndsForTheNextPane) {
  QWidget window;
  auto* layout = new QVBoxLayout(&window);
  auto* before = new QLineEdit;
  auto* after = new QLineEdit;
  canvas_ = std::make_unique<HeadCanvas>();
  canvas_->SetWorkbench(&workbench_);
  canvas_->SetTrace(workbench_.Summary());
  canvas_->setMinimumSize(1240, 700);
  layout->addWidget(before);
  layout->addWidget(canvas_.get());
  layout->addWidget(after);
  window.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
  window.activateWindow();
  canvas_->ShowHead({.layer = 0, .head = 0});
  before->setFocus();
  Settle();
  QTest::keyClick(before, Qt::Key_Tab);
  EXPECT_TRUE(canvas_->hasFocus());
  EXPECT_EQ(canvas_->FocusedControl(), "") << "the map comes first";
  int stops = 0;
  while (canvas_->hasFocus() && stops < 40) {
    QTest::keyClick(canvas_.get(), Qt::Key_Tab);
    ++stops;
  }
  EXPECT_TRUE(after->hasFocus());
  EXPECT_GT(stops, 6);
  QTest::keyClick(after, Qt::Key_Backtab, Qt::ShiftModifier);
  EXPECT_EQ(canvas_->FocusedControl(), "display") << "backwards, the panel's last control comes first";
  for (int press = 0; press < stops && canvas_->hasFocus(); ++press)
    QTest::keyClick(canvas_.get(), Qt::Key_Backtab, Qt::ShiftModifier);
  EXPECT_TRUE(before->hasFocus());
  layout->removeWidget(canvas_.get());
  canvas_->setParent(nullptr);
  canvas_.reset();
}

// The focused control is one of the frame before: its method has gone, and the key ended the program.
TEST_F(LivePanelTest, AKeyBetweenTheChoiceOfAMethodAndItsFrameIsOfNoParameter) {
  Show();
  canvas_->setFocus();
  TabTo("window");
  ASSERT_TRUE(canvas_->SetMethod(QStringLiteral("newest"), kernels::ParameterValues(canvas_->methods().back())));
  const kernels::ParameterValues before = canvas_->method_values();
  for (const Qt::Key key : {Qt::Key_Right, Qt::Key_Left, Qt::Key_Home, Qt::Key_Space}) {
    QKeyEvent press(QEvent::KeyPress, key, Qt::NoModifier);
    QApplication::sendEvent(canvas_.get(), &press);
  }
  EXPECT_EQ(canvas_->method(), "newest");
  EXPECT_EQ(canvas_->method_values(), before);
  Settle();
}

TEST_F(LivePanelTest, EscapeClosesTheListOfMethods) {
  Show();
  ClickControl("method");
  EXPECT_FALSE(canvas_->PanelControl("method:newest").isNull());
  Press(Qt::Key_Escape);
  EXPECT_TRUE(canvas_->PanelControl("method:newest").isNull());
  EXPECT_EQ(canvas_->method(), "band");
}

// F4 and Alt+Down open the list as they do any list of a desktop; in it arrows move, Enter picks, Esc leaves it.
TEST_F(LivePanelTest, KeysOpenAndWalkTheListOfMethods) {
  Show();
  canvas_->setFocus();
  const auto is_open = [&] { return !canvas_->PanelControl("method:newest").isNull(); };
  Press(Qt::Key_F4);
  ASSERT_TRUE(is_open()) << "from the map";
  EXPECT_EQ(canvas_->FocusedControl(), "method");
  Press(Qt::Key_Down);
  EXPECT_EQ(canvas_->method(), "band") << "only marked so far";
  KeepPicture("canvas_method_list");
  Press(Qt::Key_Return);
  EXPECT_FALSE(is_open());
  EXPECT_EQ(canvas_->method(), "newest");

  Press(Qt::Key_Down, Qt::AltModifier);
  ASSERT_TRUE(is_open()) << "from the field";
  Press(Qt::Key_Home);
  Press(Qt::Key_Escape);
  EXPECT_FALSE(is_open());
  EXPECT_EQ(canvas_->method(), "newest");
  Press(Qt::Key_Space);
  ASSERT_TRUE(is_open());
  Press(Qt::Key_Home);
  Press(Qt::Key_Space);
  EXPECT_EQ(canvas_->method(), "dense");

  Press(Qt::Key_F4);
  ASSERT_TRUE(is_open());
  Press(Qt::Key_F4);
  EXPECT_FALSE(is_open());
  EXPECT_EQ(canvas_->method(), "dense");
}

// Letters leave the entries that have them, and are no shortcuts meanwhile; Esc takes the filter away before the list.
TEST_F(LivePanelTest, TypingFiltersTheListOfMethods) {
  Show();
  canvas_->setFocus();
  const auto shows = [&](const char* method) { return !canvas_->PanelControl(QString("method:") + method).isNull(); };
  const double scale = canvas_->ScoresPerPixel();
  Press(Qt::Key_F4);
  ASSERT_TRUE(shows("dense") && shows("band") && shows("newest"));
  for (const Qt::Key letter : {Qt::Key_T, Qt::Key_O, Qt::Key_K}) Press(letter);
  EXPECT_TRUE(shows("newest"));
  EXPECT_FALSE(shows("dense") || shows("band"));
  KeepPicture("canvas_method_filter");
  Press(Qt::Key_Backspace);
  EXPECT_TRUE(shows("newest"));
  Press(Qt::Key_Escape);
  EXPECT_TRUE(shows("dense") && shows("band") && shows("newest")) << "the filter is gone, the list is not";
  // By what a group is called; a second word narrows it.
  for (const Qt::Key letter : {Qt::Key_D, Qt::Key_E, Qt::Key_C, Qt::Key_O, Qt::Key_D, Qt::Key_E}) Press(letter);
  EXPECT_TRUE(shows("newest"));
  EXPECT_FALSE(shows("band"));
  Press(Qt::Key_Space);
  Press(Qt::Key_Q);
  Press(Qt::Key_Q);
  EXPECT_FALSE(shows("newest"));
  Press(Qt::Key_Return);
  EXPECT_EQ(canvas_->method(), "band") << "there is nothing to pick";
  EXPECT_EQ(canvas_->ScoresPerPixel(), scale) << "letters moved the map";
  Press(Qt::Key_Escape);
  // The help of the other one has it as well, and comes before: what is called so is marked.
  for (const Qt::Key letter : {Qt::Key_N, Qt::Key_E, Qt::Key_W}) Press(letter);
  EXPECT_TRUE(shows("band") && shows("newest"));
  EXPECT_FALSE(shows("dense"));
  Press(Qt::Key_Return);
  EXPECT_FALSE(shows("newest"));
  EXPECT_EQ(canvas_->method(), "newest");
  // The next time it begins with all.
  Press(Qt::Key_F4);
  EXPECT_TRUE(shows("band"));
}

TEST_F(LivePanelTest, KeysOpenTheListOfColours) {
  Show();
  canvas_->setFocus();
  TabTo("display");
  Press(Qt::Key_Return);
  TabTo("colours");
  const QStringList names = HeadCanvas::ColorMapNames();
  const qsizetype present = names.indexOf(canvas_->color_map());
  ASSERT_EQ(present, 0);
  Press(Qt::Key_Down, Qt::AltModifier);
  EXPECT_FALSE(canvas_->PanelControl("colours:" + names[1]).isNull());
  EXPECT_TRUE(canvas_->PanelControl("method:newest").isNull());
  Press(Qt::Key_Down);
  Press(Qt::Key_Return);
  EXPECT_EQ(canvas_->color_map(), names[1]);
}

TEST_F(LivePanelTest, AKeyUnrollsThePanelForItsList) {
  Show({560, 480});
  ASSERT_TRUE(canvas_->PanelControl("method").isNull());
  canvas_->setFocus();
  Press(Qt::Key_F4);
  EXPECT_FALSE(canvas_->PanelControl("method:newest").isNull());
  EXPECT_EQ(canvas_->FocusedControl(), "method");
}

// A value from a longer trace or from a default stays until somebody moves it.
TEST_F(LivePanelTest, AValueBeyondTheTraceIsNotMovedByLookingAtIt) {
  Show();
  const kernels::MethodSpec& band = workbench_.methods()[1];
  kernels::ParameterValues values(band);
  ASSERT_EQ(values.Set(band, "window", 4096), "");
  ASSERT_TRUE(canvas_->SetMethod("band", values));
  Settle();
  ClickControl("window:up");
  EXPECT_EQ(Value("window"), 4096);
  ClickControl("window:down");
  EXPECT_EQ(Value("window"), 600);
}

TEST_F(LivePanelTest, EveryCommandDoesWhatItSays) {
  Show();
  const auto run = [&](const char* id) {
    for (const CanvasCommand& command : CanvasCommands()) {
      if (std::string(command.id) == id) {
        command.run(*canvas_);
        Settle();
        return;
      }
    }
    FAIL() << id;
  };
  run("scale-linear");
  EXPECT_EQ(canvas_->scale(), ColorScale::kLinear);
  canvas_->SetReduction(analysis::TileReduction::kMean);
  run("by-largest");
  EXPECT_EQ(canvas_->reduction(), analysis::TileReduction::kMax);
  const double fitted = ScoresPerPixel();
  canvas_->ZoomIn();
  EXPECT_LT(ScoresPerPixel(), fitted);
  canvas_->ZoomOut();
  EXPECT_NEAR(ScoresPerPixel(), fitted, 1e-9);
  canvas_->ZoomIn();
  canvas_->FitView();
  EXPECT_NEAR(ScoresPerPixel(), fitted, 1e-9);
  Settle();
  const QJsonObject before = canvas_->ViewState();
  run("fit-range");
  EXPECT_NE(canvas_->ViewState()["range_log2_min"], before["range_log2_min"]);
  QSignalSpy requested(canvas_.get(), &HeadCanvas::RunRequested);
  workbench_.hold_run = true;
  canvas_->RunMethod();
  EXPECT_EQ(requested.size(), 1);
  run("cancel-run");
  EXPECT_EQ(workbench_.num_cancelled_runs, 1);
}

// --- Marks and scales ---

TEST_F(LivePanelTest, TheScoreThatWasGoneToStaysMarkedUntilEscape) {
  Show();
  canvas_->SetPanelVisible(false);
  canvas_->GoTo(300, 236);
  canvas_->FitView();
  MoveTo({1, 1});
  Settle();
  const auto is_marked = [&](QPointF at) {
    const QColor color = Pixel(at);
    return color.green() > color.red() + 60 && color.green() > color.blue() + 40;
  };
  EXPECT_TRUE(is_marked(canvas_->PixelOf(300, 60))) << "along its row";
  EXPECT_TRUE(is_marked(canvas_->PixelOf(550, 236))) << "along its column";
  EXPECT_FALSE(is_marked(canvas_->PixelOf(310, 60)));
  KeepPicture("canvas_mark");
  canvas_->ShowHead({.layer = 0, .head = 1});
  Settle();
  EXPECT_TRUE(is_marked(canvas_->PixelOf(300, 60))) << "in the next head as well";
  Press(Qt::Key_Escape);
  EXPECT_FALSE(is_marked(canvas_->PixelOf(300, 60)));
  EXPECT_FALSE(canvas_->ClearMark());
}

// A mark leaves no frames to be drawn.
TEST_F(LivePanelTest, AMarkedCanvasIsIdle) {
  Show();
  canvas_->GoTo(300, 236);
  Settle();
  const int64_t frames = canvas_->frames_drawn();
  QTest::qWait(400);
  EXPECT_EQ(canvas_->frames_drawn(), frames);
}

// Ticks and numbers stand where the bars' scale begins, is halved and ends.
TEST_F(LivePanelTest, ProfilesHaveScales) {
  Show();
  canvas_->SetPanelVisible(false);
  MoveTo({1, 1});
  Settle();
  const CanvasLayout layout = Layout(false);
  const QImage image = canvas_->grabFramebuffer();
  const auto grey = [&](double x, double y) { return qGray(image.pixel(static_cast<int>(x), static_cast<int>(y))); };
  const auto brightest = [&](double left, double top, double right, double bottom) {
    int most = 0;
    for (double y = top; y < bottom; ++y) {
      for (double x = left; x < right; ++x) most = std::max(most, grey(x, y));
    }
    return most;
  };
  const PixelRect& keys = layout.column_profile;
  for (const double share : {0.0, 0.5, 1.0}) {
    const double y = keys.bottom() - keys.height * share;
    EXPECT_GT(brightest(keys.x - 4, y - 1, keys.x - 1, y + 2), 60) << "tick at " << share;
    EXPECT_GT(brightest(keys.x - 60, std::max(y - 8, keys.y - 2), keys.x - 6, std::min(y + 8, keys.bottom() + 3)), 150)
        << "number at " << share;
  }
  const PixelRect& queries = layout.row_profile;
  for (const double share : {0.0, 0.5, 1.0}) {
    const double x = queries.x + queries.width * share;
    EXPECT_GT(brightest(x - 1, queries.bottom() + 1, x + 2, queries.bottom() + 4), 60) << "tick at " << share;
  }
  EXPECT_GT(brightest(queries.x - 2, queries.bottom() + 4, queries.x + 8, queries.bottom() + 20), 150) << "0";
  EXPECT_GT(brightest(queries.right() - 10, queries.bottom() + 4, queries.right(), queries.bottom() + 20), 150) << "1";
  KeepPicture("canvas_profile_scales");
}

// Of a whole head every query spends all of its mass on the map: one even area, however many queries share a pixel.
TEST_F(LivePanelTest, BarsBesideTheMapHaveNoStripes) {
  for (const QSize size : {QSize(1240, 700), QSize(1240, 611), QSize(1240, 983)}) {
    Show(size);
    canvas_->SetPanelVisible(false);
    canvas_->SetOverlay(false);
    MoveTo({1, 1});
    Settle();
    const PixelRect area = Layout(false).row_profile;
    const QImage image = canvas_->grabFramebuffer();
    const double x = area.x + 0.3 * area.width;
    const QColor bar = ColorAt(image, {x, canvas_->PixelOf(300, 0).y()});
    EXPECT_GT(qGray(bar.rgb()), 60);
    for (int y = int(canvas_->PixelOf(2, 0).y()); y < int(canvas_->PixelOf(kTokens - 3, 0).y()); ++y)
      ASSERT_EQ(ColorAt(image, {x, double(y)}), bar) << "line " << y << " of " << size.height();
  }
}

}  // namespace
}  // namespace headscope::ui
