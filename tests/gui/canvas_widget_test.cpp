// SPDX-License-Identifier: Apache-2.0
// The canvas as a user meets it: a shown widget on a real OpenGL context, driven by mouse and key events, drawing a
// synthetic head.
#include "canvas_widget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <QApplication>
#include <QContextMenuEvent>
#include <QDir>
#include <QImage>
#include <QScreen>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <QTimer>
#include <cmath>

#include "analysis/types/color_map.h"
#include "analysis/types/value_scale.h"
#include "canvas_fixture.h"
#include "canvas_layout.h"
#include "set_repeats.h"

namespace headscope::ui {
namespace {

class QtEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    QCoreApplication::setAttribute(Qt::AA_ShareOpenGLContexts);
    application_ = std::make_unique<QApplication>(argument_count_, arguments_);
  }
  void TearDown() override { application_.reset(); }

 private:
  int argument_count_ = 1;
  char name_[16] = "canvas_test";
  char* arguments_[2] = {name_, nullptr};
  std::unique_ptr<QApplication> application_;
};
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new QtEnvironment);

TEST_F(HeadCanvasTest, IdleCanvasDrawsNoFrames) {
  Show();
  const int64_t frames = canvas_->frames_drawn();
  EXPECT_GT(frames, 0);
  QTest::qWait(500);
  EXPECT_EQ(canvas_->frames_drawn(), frames);
}

// What times a map at rest waits for its tiles, a measured run for frames alone: a pass over a long head takes seconds.
TEST_F(HeadCanvasTest, ATileOnItsWayIsDueAndNoFrameIs) {
  Show();
  EXPECT_FALSE(canvas_->IsTileDue());
  std::vector<std::function<void()>> held;
  workbench_.SetPoster([&](std::function<void()> act) { held.push_back(std::move(act)); });
  canvas_->ShowHead({.layer = 0, .head = 1});
  EXPECT_TRUE(QTest::qWaitFor([&] { return canvas_->IsTileDue() && !canvas_->IsFrameDue(); }, 10000));
  workbench_.SetPoster([](std::function<void()> act) { QTimer::singleShot(0, qApp, std::move(act)); });
  for (const std::function<void()>& act : held) act();
  Settle();
  EXPECT_FALSE(canvas_->IsTileDue());
}

TEST_F(HeadCanvasTest, PickedScoreIsTheOneUnderThePointer) {
  Show();
  canvas_->SetPanelVisible(false);
  canvas_->GoTo(300, 236);
  Settle();
  QSignalSpy moved(canvas_.get(), &HeadCanvas::CursorMoved);
  for (const auto& [row, column] : {std::pair<int, int>{300, 236}, {305, 240}, {296, 232}}) {
    MoveTo(canvas_->PixelOf(row, column));
    Settle();
    ASSERT_FALSE(moved.isEmpty());
    EXPECT_EQ(moved.back()[0].toLongLong(), row);
    EXPECT_EQ(moved.back()[1].toLongLong(), column);
    EXPECT_DOUBLE_EQ(moved.back()[2].value<Exact>().probability, workbench_.Head(0).Probability(row, column));
  }
}

TEST_F(HeadCanvasTest, AScreenReaderIsToldWhatTheMapShows) {
  Show();
  canvas_->SetPanelVisible(false);
  Settle();
  EXPECT_TRUE(canvas_->accessibleName().startsWith(QStringLiteral("Attention map of layer ")))
      << canvas_->accessibleName().toStdString();
  const QString all = canvas_->accessibleDescription();
  EXPECT_TRUE(all.contains(QStringLiteral("queries 0 to "))) << all.toStdString();
  canvas_->ZoomTo(100, 140, 50, 90);
  Settle();
  const QString part = canvas_->accessibleDescription();
  EXPECT_NE(part, all);
  MoveTo(canvas_->PixelOf(120, 70));
  Settle();
  EXPECT_GT(canvas_->accessibleDescription().size(), part.size()) << "the score under the pointer";
}

// The pixel at a score's centre has the palette's colour of the probability that the formula gives there.
TEST_F(HeadCanvasTest, PixelsShowTheProbability) {
  Show();
  canvas_->SetPanelVisible(false);
  canvas_->SetOverlay(false);
  for (const ColorScale scale : {ColorScale::kLogarithmic, ColorScale::kLinear}) {
    canvas_->SetScale(scale);
    canvas_->GoTo(300, 236);  // 24 pixels a score: no digits are written over it
    Settle();
    const QImage image = canvas_->grabFramebuffer();
    const QJsonObject state = canvas_->ViewState();
    const analysis::ValueRange range{static_cast<float>(state["range_log2_min"].toDouble()),
                                     static_cast<float>(state["range_log2_max"].toDouble())};
    for (const auto& [row, column] : {std::pair<int, int>{300, 236}, {301, 236}, {302, 239}, {290, 230}, {308, 244}}) {
      const float log2_p = static_cast<float>(std::log2(workbench_.Head(0).Probability(row, column)));
      const float position = analysis::ScalePosition(log2_p, range, scale == ColorScale::kLogarithmic);
      // Half floats hold log2 p to 2^-8 at this depth: one palette entry.
      const QColor shown = ColorAt(image, canvas_->PixelOf(row, column));
      const analysis::Rgb expected = analysis::ColorAt(analysis::SequentialPalette(), static_cast<double>(position));
      EXPECT_NEAR(shown.red(), expected.red, 4) << row << ", " << column;
      EXPECT_NEAR(shown.green(), expected.green, 4) << row << ", " << column;
      EXPECT_NEAR(shown.blue(), expected.blue, 4) << row << ", " << column;
    }
  }
}

// Within one score all pixels have its colour; of a preview some have a stripe's.
TEST_F(HeadCanvasTest, APreviewIsStripedUntilItsTileComes) {
  Show();
  canvas_->SetPanelVisible(false);
  canvas_->SetOverlay(false);
  canvas_->GoTo(300, 236);
  Settle();
  const auto colors_of_score = [&] {
    const QImage image = canvas_->grabFramebuffer();
    const QPointF centre = canvas_->PixelOf(303, 238);
    QSet<QRgb> colors;
    for (int y = -5; y <= 5; ++y) {
      for (int x = -5; x <= 5; ++x) colors.insert(ColorAt(image, centre + QPointF(x, y)).rgb());
    }
    return colors.size();
  };
  EXPECT_EQ(colors_of_score(), 1);
  workbench_.previews = testing::FakeWorkbench::Previews::kAlone;
  canvas_->ShowHead({.layer = 0, .head = 1});
  EXPECT_TRUE(QTest::qWaitFor([&] { return colors_of_score() == 2; }, 10000)) << "its tiles never come";
  workbench_.previews = testing::FakeWorkbench::Previews::kFirst;
  canvas_->ShowHead({.layer = 0, .head = 2});
  Settle();
  EXPECT_EQ(colors_of_score(), 1);
}

// A range fitted to a preview was that of some of the queries, and stayed.
TEST_F(HeadCanvasTest, ARangeIsFittedToTheTilesThemselves) {
  Show();
  canvas_->GoTo(300, 236);
  Settle();
  const analysis::ValueRange first = canvas_->range();
  workbench_.previews = testing::FakeWorkbench::Previews::kFirst;
  bool asked = false;
  QObject::connect(canvas_.get(), &HeadCanvas::TilesArrived, canvas_.get(), [&] {
    if (std::exchange(asked, true)) return;
    canvas_->FitRange();
    EXPECT_EQ(canvas_->range(), first) << "only a preview is there";
  });
  QSignalSpy set(canvas_.get(), &HeadCanvas::RangeSet);
  canvas_->ShowHead({.layer = 0, .head = 1});
  Settle();
  ASSERT_TRUE(asked);
  EXPECT_EQ(set.size(), 1) << "one step to take back";
  const analysis::ValueRange fitted = canvas_->range();
  EXPECT_NE(fitted, first);
  canvas_->FitRange();
  EXPECT_EQ(canvas_->range(), fitted) << "as it is fitted when all is there";
}

TEST_F(HeadCanvasTest, WheelZoomsAboutThePointerDownToSingleScores) {
  Show();
  canvas_->SetPanelVisible(false);
  Settle();
  const double fitted = ScoresPerPixel();
  QSignalSpy moved(canvas_.get(), &HeadCanvas::CursorMoved);
  const QPointF at = canvas_->PixelOf(400, 150);
  MoveTo(at);
  Settle();
  for (int notch = 0; notch < 30; ++notch) Wheel(at, 1);
  Settle();
  EXPECT_NEAR(ScoresPerPixel(), 1.0 / 96, 1e-9);
  EXPECT_NEAR(moved.back()[0].toDouble(), 400, 1);
  EXPECT_NEAR(moved.back()[1].toDouble(), 150, 1);
  KeepPicture("canvas_single_scores");
  for (int notch = 0; notch < 40; ++notch) Wheel(at, -1);
  Settle();
  EXPECT_NEAR(ScoresPerPixel(), fitted, 1e-9);
}

// ImGui sizes a tooltip by what it held a frame earlier. One that has come to rest looks as it does after another
// frame.
TEST_F(HeadCanvasTest, ALineThatComesToTheTooltipIsShownWhole) {
  Show();
  const kernels::MethodSpec& decode = canvas_->methods().back();
  ASSERT_EQ(decode.phase, kernels::Phase::kDecode) << "it says nothing of single scores";
  ASSERT_TRUE(canvas_->SetMethod(QString::fromStdString(decode.name), kernels::ParameterValues(decode)));
  MoveTo(canvas_->PixelOf(400, 100));
  Settle();
  const auto on_screen = [this] { return canvas_->screen()->grabWindow(canvas_->winId()).toImage(); };
  const QImage without_line = on_screen();
  const kernels::MethodSpec& band = workbench_.methods()[1];
  ASSERT_TRUE(canvas_->SetMethod(QString::fromStdString(band.name), kernels::ParameterValues(band)));
  Settle();
  const QImage at_rest = on_screen();
  ASSERT_NE(at_rest, without_line) << "the screen is not read";
  const int64_t frames = canvas_->frames_drawn();
  canvas_->RequestNewFrame();
  ASSERT_TRUE(QTest::qWaitFor([&] { return canvas_->frames_drawn() > frames; }, 10000));
  Settle();
  EXPECT_EQ(on_screen(), at_rest);
}

TEST_F(HeadCanvasTest, DragPansAndKeysMove) {
  Show();
  canvas_->SetPanelVisible(false);
  canvas_->GoTo(300, 250);
  Settle();
  const QPointF before = canvas_->PixelOf(300, 250);
  MoveTo(before);
  QTest::mousePress(canvas_.get(), Qt::LeftButton, {}, before.toPoint());
  MoveTo(before + QPointF(60, 30), Qt::LeftButton);
  QTest::mouseRelease(canvas_.get(), Qt::LeftButton, {}, (before + QPointF(60, 30)).toPoint());
  Settle();
  EXPECT_NEAR(canvas_->PixelOf(300, 250).x(), before.x() + 60, 1);
  EXPECT_NEAR(canvas_->PixelOf(300, 250).y(), before.y() + 30, 1);

  const double column = CenterColumn();
  QTest::keyClick(canvas_.get(), Qt::Key_D);
  EXPECT_GT(CenterColumn(), column);
  QTest::keyClick(canvas_.get(), Qt::Key_Left);
  EXPECT_NEAR(CenterColumn(), column, 1e-6);
  QTest::keyClick(canvas_.get(), Qt::Key_F);
  EXPECT_LT(canvas_->PixelOf(0, 0).x(), canvas_->PixelOf(0, kTokens - 1).x());
  EXPECT_LT(canvas_->PixelOf(kTokens - 1, kTokens - 1).x(), canvas_->width());
  QSignalSpy step(canvas_.get(), &HeadCanvas::HeadStepRequested);
  QTest::keyClick(canvas_.get(), Qt::Key_Period);
  QTest::keyClick(canvas_.get(), Qt::Key_Comma);
  ASSERT_EQ(step.size(), 2);
  EXPECT_EQ(step[0][0].toInt(), 1);
  EXPECT_EQ(step[1][0].toInt(), -1);
  Settle();
}

TEST_F(HeadCanvasTest, RightDragZoomsToTheRectangle) {
  Show();
  canvas_->SetPanelVisible(false);
  Settle();
  const QPoint from = canvas_->PixelOf(400, 100).toPoint(), to = canvas_->PixelOf(500, 200).toPoint();
  MoveTo(from);
  QTest::mousePress(canvas_.get(), Qt::RightButton, {}, from);
  MoveTo(to, Qt::RightButton);
  Settle();
  QTest::mouseRelease(canvas_.get(), Qt::RightButton, {}, to);
  Settle();
  EXPECT_NEAR(CenterColumn(), 150, 2);
  EXPECT_LT(std::abs(canvas_->PixelOf(500, 200).y() - canvas_->PixelOf(400, 100).y() - 0.87 * canvas_->height()),
            0.12 * canvas_->height());
}

TEST_F(HeadCanvasTest, TheSmallMapMovesTheViewWhereItIsPressedAndDragged) {
  Show();
  canvas_->SetPanelVisible(false);
  canvas_->ZoomTo(0, 100, 0, 100);
  Settle();
  const QRectF small = canvas_->MinimapRect();
  ASSERT_FALSE(small.isNull());
  const double scale = canvas_->ScoresPerPixel();
  Click(small.topLeft() + QPointF(small.width() / 2, small.height() * 0.75));
  Settle();
  HeadCanvas::Part part = canvas_->VisiblePart();
  EXPECT_NEAR(static_cast<double>(part.row_begin + part.row_end) / 2, 0.75 * kTokens, 6);
  EXPECT_NEAR(static_cast<double>(part.column_begin + part.column_end) / 2, 0.5 * kTokens, 6);
  EXPECT_EQ(canvas_->ScoresPerPixel(), scale) << "it moves and does not zoom";
  // A drag goes on.
  const QPointF from = small.center();
  MoveTo(from);
  QTest::mousePress(canvas_.get(), Qt::LeftButton, {}, from.toPoint());
  QTest::qWait(30);
  const QPointF to = small.topLeft() + QPointF(small.width() * 0.25, small.height() * 0.9);
  MoveTo(to, Qt::LeftButton);
  QTest::qWait(30);
  QTest::mouseRelease(canvas_.get(), Qt::LeftButton, {}, to.toPoint());
  Settle();
  part = canvas_->VisiblePart();
  EXPECT_NEAR(static_cast<double>(part.column_begin + part.column_end) / 2, 0.25 * kTokens, 6);
}

TEST_F(HeadCanvasTest, ACurveThatIsPressedMarksItsKeyOrItsQuery) {
  Show();
  canvas_->SetPanelVisible(false);
  Settle();
  QSignalSpy marked(canvas_.get(), &HeadCanvas::ScoreMarked);
  const HeadCanvas::Part before = canvas_->VisiblePart();
  // Key 97 is a vertical of the synthetic head: a press two pixels beside its bar finds it.
  const QRectF map = canvas_->MapRect();
  const double pixel = 1 / canvas_->ScoresPerPixel();
  Click({canvas_->PixelOf(300, 97).x() + 2 * std::min(pixel, 1.0), map.bottom() + 40});
  ASSERT_TRUE(QTest::qWaitFor([&] { return marked.count() == 1; }));
  EXPECT_NEAR(static_cast<double>(marked.at(0).at(1).toLongLong()), 97, 1) << "a bar stands for two keys here";
  Click({map.right() + 30, canvas_->PixelOf(450, 0).y()});
  ASSERT_TRUE(QTest::qWaitFor([&] { return marked.count() == 2; }));
  EXPECT_EQ(marked.at(1).at(0).toLongLong(), 450);
  EXPECT_EQ(marked.at(1).at(1).toLongLong(), 450) << "its newest key";
  EXPECT_EQ(canvas_->VisiblePart().row_begin, before.row_begin);
  EXPECT_TRUE(canvas_->ClearMark());
}

TEST_F(HeadCanvasTest, AClickMarksTheScoreAndADragDoesNot) {
  Show();
  canvas_->SetPanelVisible(false);
  Settle();
  QSignalSpy marked(canvas_.get(), &HeadCanvas::ScoreMarked);
  const HeadCanvas::Part before = canvas_->VisiblePart();
  Click(canvas_->PixelOf(400, 200));
  ASSERT_TRUE(QTest::qWaitFor([&] { return marked.count() == 1; }));
  EXPECT_NEAR(static_cast<double>(marked.at(0).at(0).toLongLong()), 400, 1) << "a pixel stands for two queries here";
  EXPECT_NEAR(static_cast<double>(marked.at(0).at(1).toLongLong()), 200, 1);
  EXPECT_EQ(canvas_->VisiblePart().row_begin, before.row_begin) << "the view stays";
  Settle();
  QTest::qWait(QApplication::doubleClickInterval() + 50);  // no double click
  Click(canvas_->PixelOf(400, 200));
  Settle();
  EXPECT_FALSE(canvas_->ClearMark()) << "the second click took the mark away";
  EXPECT_EQ(marked.count(), 1);
  // A key that the query does not see, and a drag.
  QTest::qWait(QApplication::doubleClickInterval() + 50);
  Click(canvas_->PixelOf(100, 500));
  Settle();
  const QPointF from = canvas_->PixelOf(300, 100), to = from + QPointF(40, 10);
  MoveTo(from);
  QTest::mousePress(canvas_.get(), Qt::LeftButton, {}, from.toPoint());
  MoveTo(to, Qt::LeftButton);
  QTest::mouseRelease(canvas_.get(), Qt::LeftButton, {}, to.toPoint());
  Settle();
  EXPECT_FALSE(canvas_->ClearMark());
  EXPECT_EQ(marked.count(), 1);
}

TEST_F(HeadCanvasTest, ADoubleClickZoomsAndLeavesTheMark) {
  Show();
  canvas_->SetPanelVisible(false);
  Settle();
  canvas_->MarkScore(500, 300);
  QSignalSpy taken_back(canvas_.get(), &HeadCanvas::ScoreMarkTakenBack);
  QSignalSpy wanted(canvas_.get(), &HeadCanvas::MenuWanted);
  const auto mark = [&] {
    QContextMenuEvent key(QContextMenuEvent::Keyboard, {}, {});
    QApplication::sendEvent(canvas_.get(), &key);
    return std::pair(wanted.back()[1].toLongLong(), wanted.back()[2].toLongLong());
  };
  const std::pair<qlonglong, qlonglong> marked(500, 300);
  const auto double_click = [&](QPointF at) {
    const double scale = canvas_->ScoresPerPixel();
    Click(at);
    QTest::mouseDClick(canvas_.get(), Qt::LeftButton, {}, at.toPoint());
    QTest::mouseRelease(canvas_.get(), Qt::LeftButton, {}, at.toPoint());
    Settle();
    EXPECT_LT(canvas_->ScoresPerPixel(), scale / 2);
    canvas_->FitView();
    Settle();
  };
  double_click(canvas_->PixelOf(400, 200));
  EXPECT_EQ(mark(), marked);
  EXPECT_EQ(taken_back.count(), 1);
  double_click(canvas_->PixelOf(100, 500));
  EXPECT_EQ(mark(), marked);
  EXPECT_EQ(taken_back.count(), 1) << "a key that the query does not see: nothing was marked";
  // On the mark itself, whose first click takes it away.
  double_click(canvas_->PixelOf(500, 300));
  EXPECT_EQ(mark(), marked);
  canvas_->ClearMark();
  double_click(canvas_->PixelOf(400, 200));
  EXPECT_FALSE(canvas_->ClearMark()) << "there was none";
}

TEST_F(HeadCanvasTest, AScoreThatIsNotKnownYetHasNoText) {
  Show();
  EXPECT_TRUE(canvas_->ScoreText(400, 200).contains(QStringLiteral("p = ")));
  EXPECT_TRUE(canvas_->ScoreText(200, 400).isEmpty());
  workbench_.head_is_read = false;
  EXPECT_TRUE(canvas_->ScoreText(400, 200).isEmpty());
}

TEST_F(HeadCanvasTest, TheRightButtonAsksForAMenuAndADragOfItZooms) {
  Show();
  canvas_->SetPanelVisible(false);
  Settle();
  QSignalSpy wanted(canvas_.get(), &HeadCanvas::MenuWanted);
  const auto right = [&](QPointF from, QPointF to) {
    MoveTo(from);
    QTest::mousePress(canvas_.get(), Qt::RightButton, {}, from.toPoint());
    if (from != to) MoveTo(to, Qt::RightButton);
    QTest::mouseRelease(canvas_.get(), Qt::RightButton, {}, to.toPoint());
    Settle();
  };
  const QPointF at = canvas_->PixelOf(400, 200);
  right(at, at);
  ASSERT_TRUE(QTest::qWaitFor([&] { return wanted.count() == 1; }));
  EXPECT_EQ(wanted.at(0).at(0).toPoint(), canvas_->mapToGlobal(at.toPoint()));
  EXPECT_NEAR(static_cast<double>(wanted.at(0).at(1).toLongLong()), 400, 1);
  EXPECT_NEAR(static_cast<double>(wanted.at(0).at(2).toLongLong()), 200, 1);
  right(canvas_->PixelOf(100, 500), canvas_->PixelOf(100, 500));
  ASSERT_TRUE(QTest::qWaitFor([&] { return wanted.count() == 2; }));
  EXPECT_EQ(wanted.at(1).at(1).toLongLong(), -1) << "no score is there";
  // By key, of what is marked; GoTo marks what the query does not see, too.
  canvas_->GoTo(100, 500);
  QContextMenuEvent on_nothing(QContextMenuEvent::Keyboard, {}, {});
  QApplication::sendEvent(canvas_.get(), &on_nothing);
  ASSERT_EQ(wanted.count(), 3);
  EXPECT_EQ(wanted.at(2).at(1).toLongLong(), -1);
  canvas_->FitView();
  canvas_->MarkScore(350, 97);
  QContextMenuEvent by_key(QContextMenuEvent::Keyboard, {}, {});
  QApplication::sendEvent(canvas_.get(), &by_key);
  ASSERT_EQ(wanted.count(), 4);
  EXPECT_EQ(wanted.at(3).at(1).toLongLong(), 350);
  EXPECT_EQ(wanted.at(3).at(2).toLongLong(), 97);
  const double before = canvas_->ScoresPerPixel();
  right(at, at + QPointF(60, 60));
  EXPECT_LT(canvas_->ScoresPerPixel(), before);
  EXPECT_EQ(wanted.count(), 4);
}

TEST_F(HeadCanvasTest, SliderChangesTheMaskAndRunMeasuresIt) {
  Show();
  QSignalSpy changed(canvas_.get(), &HeadCanvas::MethodChanged);
  QSignalSpy masks(canvas_.get(), &HeadCanvas::MaskReady);
  EXPECT_EQ(canvas_->method(), "band");
  EXPECT_EQ(canvas_->method_values().Integer("window"), 64);
  ClickControl("window:up");
  EXPECT_EQ(canvas_->method_values().Integer("window"), 128);
  ASSERT_EQ(changed.size(), 1);
  EXPECT_THAT(changed[0][1].toString().toStdString(), ::testing::HasSubstr("window=128"));
  EXPECT_EQ(masks.size(), 1);

  // Drag the slider to its right end.
  const QRectF slider = canvas_->PanelControl("sinks");
  const QPoint from = slider.center().toPoint(), to(static_cast<int>(slider.right()) + 40, from.y());
  MoveTo(from);
  QTest::mousePress(canvas_.get(), Qt::LeftButton, {}, from);
  MoveTo(to, Qt::LeftButton);
  QTest::mouseRelease(canvas_.get(), Qt::LeftButton, {}, to);
  Settle();
  EXPECT_EQ(canvas_->method_values().Integer("sinks"), 64);

  // A double click, as Qt reports one, sets it back.
  const QPoint middle = canvas_->PanelControl("sinks").center().toPoint();
  QTest::mousePress(canvas_.get(), Qt::LeftButton, {}, middle);
  QTest::mouseRelease(canvas_.get(), Qt::LeftButton, {}, middle);
  QTest::mouseDClick(canvas_.get(), Qt::LeftButton, {}, middle);
  QTest::mouseRelease(canvas_.get(), Qt::LeftButton, {}, middle);
  Settle();
  EXPECT_EQ(canvas_->method_values().Integer("sinks"), 4);

  QSignalSpy requested(canvas_.get(), &HeadCanvas::RunRequested);
  QSignalSpy finished(canvas_.get(), &HeadCanvas::RunFinished);
  gui_test::SetRepeats(canvas_.get(), 5);
  ClickControl("run");
  ASSERT_TRUE(QTest::qWaitFor([&] { return finished.size() == 1; }, 2000));
  EXPECT_EQ(requested.size(), 1);
  EXPECT_EQ(workbench_.last_repeats, 5);
  EXPECT_EQ(workbench_.last_parameters, canvas_->method_values().ToString(workbench_.methods()[1]));
  EXPECT_EQ(finished[0][0].value<analysis::MethodResult>().speedup, 3);
  Settle();
  EXPECT_FALSE(canvas_->PanelControl("result").isNull());
  KeepPicture("canvas_panel");
}

TEST_F(HeadCanvasTest, PanelComesAlongWhenTheCanvasShrinks) {
  Show({1100, 700});
  const QRectF before = canvas_->PanelControl("run");
  ClickControl("roll");
  ClickControl("roll");  // by hand: it stays open on a small canvas
  canvas_->resize(660, 500);
  Settle();
  const QRectF after = canvas_->PanelControl("run");
  EXPECT_GT(before.right(), 660);
  EXPECT_LT(after.right(), 660);
  ClickControl("overlay");  // its controls can be reached
  EXPECT_FALSE(canvas_->overlay());
}

TEST_F(HeadCanvasTest, CancelStopsARun) {
  Show();
  workbench_.hold_run = true;
  ClickControl("run");
  EXPECT_FALSE(canvas_->PanelControl("cancel").isNull());
  ClickControl("cancel");
  EXPECT_TRUE(canvas_->PanelControl("cancel").isNull());
  EXPECT_EQ(workbench_.num_cancelled_runs, 1);
}

TEST_F(HeadCanvasTest, MaskDimsWhatIsNotKept) {
  Show();
  canvas_->SetPanelVisible(false);
  kernels::ParameterValues values(workbench_.methods()[1]);
  ASSERT_EQ(values.Set(workbench_.methods()[1], "window", 8), "");
  ASSERT_TRUE(canvas_->SetMethod("band", values));
  canvas_->GoTo(300, 290);
  Settle();
  const QColor kept = ColorAt(canvas_->grabFramebuffer(), canvas_->PixelOf(300, 297));
  const QColor dropped = ColorAt(canvas_->grabFramebuffer(), canvas_->PixelOf(300, 285));
  EXPECT_NE(kept.red(), kept.blue()) << "kept scores are in colour";
  EXPECT_EQ(dropped.red(), dropped.green()) << "dropped scores are grey";
  EXPECT_EQ(dropped.red(), dropped.blue());
  KeepPicture("canvas_mask");
  canvas_->SetOverlay(false);
  Settle();
  EXPECT_NE(ColorAt(canvas_->grabFramebuffer(), canvas_->PixelOf(300, 285)), dropped);
}

// Floating a dock and bringing it back: with shared contexts the widget keeps its own; without, each step brings a new
// one, and all that the old one held is made again.
TEST_F(HeadCanvasTest, ExportHasTheRequestedSizeAndTheMapInIt) {
  Show();
  QTemporaryDir folder;
  const QString path = folder.filePath("head.png");
  QSignalSpy exported(canvas_.get(), &HeadCanvas::PngExported);
  canvas_->ExportPng(path, {1200, 1000});
  ASSERT_TRUE(QTest::qWaitFor([&] { return exported.size() == 1; }, 10000));
  EXPECT_EQ(exported[0][1].toString(), "");
  const QImage image(path);
  EXPECT_EQ(image.size(), QSize(1200, 1000));
  QSet<QRgb> colours;
  for (int y = 0; y < image.height(); y += 3) {
    for (int x = 0; x < image.width(); x += 3) colours.insert(image.pixel(x, y));
  }
  EXPECT_GT(colours.size(), 50) << "the picture is blank";

  // Twice as fine a picture of the same canvas: what stands at a place stands at twice that place.
  canvas_->ExportPng(path, {2400, 2000}, 2);
  ASSERT_TRUE(QTest::qWaitFor([&] { return exported.size() == 2; }, 10000));
  EXPECT_EQ(exported[1][1].toString(), "");
  const QImage fine(path);
  ASSERT_EQ(fine.size(), QSize(2400, 2000));
  const CanvasLayout layout = canvas_->PictureLayout({1200, 1000});
  const QPointF inside(layout.color_bar.x + 8, layout.color_bar.y + layout.color_bar.height / 3);
  EXPECT_NE(image.pixel(inside.toPoint()), image.pixel(1, 1));
  const QColor once = image.pixelColor(inside.toPoint()), twice = fine.pixelColor((inside * 2).toPoint());
  EXPECT_NEAR(once.green(), twice.green(), 6);
  EXPECT_NEAR(once.red(), twice.red(), 6);

  canvas_->ExportPng(folder.filePath("missing/head.png"), {800, 600});
  ASSERT_TRUE(QTest::qWaitFor([&] { return exported.size() == 3; }, 10000));
  EXPECT_THAT(exported[2][1].toString().toStdString(), ::testing::HasSubstr("could not be written"));
  canvas_->ExportPng(path, {100000, 10});
  ASSERT_TRUE(QTest::qWaitFor([&] { return exported.size() == 4; }, 10000));
  EXPECT_THAT(exported[3][1].toString().toStdString(), ::testing::HasSubstr("100000 x 10"));
  Settle();
}

// A picture for paper: white where the other is dark, dark where it writes, and the very same colours of scores.
TEST_F(HeadCanvasTest, PictureOnWhiteIsReadableAndHasTheSameMapInPixels) {
  Show();
  QTemporaryDir folder;
  QSignalSpy exported(canvas_.get(), &HeadCanvas::PngExported);
  const auto draw = [&](bool light) {
    canvas_->SetPicturesLight(light);
    const QString path = folder.filePath(light ? "light.png" : "dark.png");
    const auto before = exported.size();
    canvas_->ExportPng(path, {1200, 1000});
    EXPECT_TRUE(QTest::qWaitFor([&] { return exported.size() == before + 1; }, 10000));
    return QImage(path);
  };
  const QImage dark = draw(false), light = draw(true);
  ASSERT_EQ(light.size(), QSize(1200, 1000));
  ASSERT_EQ(dark.size(), light.size());
  EXPECT_EQ(light.pixelColor(1, 1), QColor(Qt::white));
  EXPECT_LT(qGray(dark.pixel(1, 1)), 40);

  const CanvasLayout layout = canvas_->PictureLayout({1200, 1000});
  // Of each part that has writing: the ground is light, and what is written stands out from it as dark.
  for (const PixelRect& part :
       {layout.title, layout.caption, layout.column_axis, layout.row_axis, layout.column_profile}) {
    int white = 0, ink = 0, pixels = 0;
    for (int y = static_cast<int>(part.y) + 1; y < static_cast<int>(part.bottom()) - 1; ++y) {
      for (int x = static_cast<int>(part.x) + 1; x < static_cast<int>(part.right()) - 1; ++x, ++pixels) {
        white += qGray(light.pixel(x, y)) > 240 ? 1 : 0;
        ink += qGray(light.pixel(x, y)) < 130 ? 1 : 0;
      }
    }
    EXPECT_GT(white, pixels / 3) << part.x << ' ' << part.y;
    EXPECT_GT(ink, 30) << part.x << ' ' << part.y;
  }
  // The bar's colours and the map's are those of the dark picture; where no score exists, both have their own ground.
  int same = 0, grounds = 0, other = 0;
  const auto compare = [&](const PixelRect& part) {
    for (int y = static_cast<int>(part.y) + 2; y < static_cast<int>(part.bottom()) - 2; ++y) {
      for (int x = static_cast<int>(part.x) + 2; x < static_cast<int>(part.right()) - 2; ++x) {
        const QRgb on_white = light.pixel(x, y), on_dark = dark.pixel(x, y);
        if (on_white == on_dark) {
          ++same;
        } else if (qGray(on_white) > 200 && qGray(on_dark) < 60) {
          ++grounds;
        } else {
          ++other;
        }
      }
    }
  };
  compare(layout.map);
  EXPECT_GT(same, 10000);
  EXPECT_GT(grounds, 10000) << "half of the map lies after the queries";
  EXPECT_EQ(other, 0);
  same = grounds = other = 0;
  compare({layout.color_bar.x + 2, layout.color_bar.y, 14, layout.color_bar.height});
  EXPECT_GT(same, 1000);
  EXPECT_EQ(grounds + other, 0);
  EXPECT_TRUE(canvas_->pictures_light());
  // Inside the frame that says where the keyboard is, which is wider on a screen of more pixels.
  EXPECT_EQ(canvas_->grabFramebuffer().pixelColor(6, 6), dark.pixelColor(1, 1)) << "the window keeps its own ground";
}

TEST_F(HeadCanvasTest, CancelledExportWritesNothingAndTheCanvasGoesOn) {
  Show();
  QTemporaryDir folder;
  const QString path = folder.filePath("head.png");
  QSignalSpy exported(canvas_.get(), &HeadCanvas::PngExported);
  workbench_.HoldTiles(true);  // the picture wants finer tiles than the window holds
  canvas_->ExportPng(path, {2000, 1800});
  canvas_->CancelExport();
  workbench_.HoldTiles(false);
  Settle();
  EXPECT_TRUE(exported.isEmpty());
  EXPECT_FALSE(QFile::exists(path));
  canvas_->ExportPng(path, {2000, 1800});
  ASSERT_TRUE(QTest::qWaitFor([&] { return exported.size() == 1; }, 20000));
  EXPECT_EQ(exported[0][1].toString(), "");
}

TEST_F(HeadCanvasTest, ViewStateRoundTripsAlsoBeforeTheTraceIsThere) {
  Show();
  canvas_->SetColorMap("magma");
  canvas_->SetScale(ColorScale::kLinear);
  EXPECT_FALSE(canvas_->pictures_light()) << "as the window";
  canvas_->setPalette(QPalette(QColor(240, 240, 240), Qt::white));
  EXPECT_TRUE(canvas_->pictures_light()) << "which may change";
  canvas_->SetPicturesLight(false);
  EXPECT_FALSE(canvas_->pictures_light()) << "a choice stays";
  canvas_->SetPicturesLight(true);
  canvas_->GoTo(100, 50);
  kernels::ParameterValues values(workbench_.methods()[1]);
  ASSERT_EQ(values.Set(workbench_.methods()[1], "window", 32), "");
  ASSERT_TRUE(canvas_->SetMethod("band", values));
  Settle();
  const QJsonObject state = canvas_->ViewState();
  HeadCanvas later;
  later.resize(canvas_->size());
  later.RestoreViewState(state);
  later.SetWorkbench(&workbench_);
  later.SetTrace(workbench_.Summary());
  EXPECT_EQ(later.ViewState(), state);
  EXPECT_TRUE(later.pictures_light());
  later.SetWorkbench(nullptr);
}

}  // namespace
}  // namespace headscope::ui
