// SPDX-License-Identifier: Apache-2.0
// How the canvas' frames come to the screen. CTest runs these twice: as this machine's OpenGL has it, and in a window
// that OpenGL puts together.
#include "gl_surface.h"

#include <gtest/gtest.h>

#include <QDockWidget>
#include <QMainWindow>
#include <QOpenGLContext>
#include <QOpenGLFunctions>
#include <QOpenGLWidget>
#include <QPointer>
#include <QScreen>
#include <QSignalSpy>
#include <QTest>
#include <QWindow>

#include "canvas_fixture.h"

namespace headscope::ui {
namespace {

class GlSurfaceTest : public HeadCanvasTest {
 protected:
  QImage OnScreen() const {
    return canvas_->screen()->grabWindow(canvas_->winId()).toImage().convertToFormat(QImage::Format_RGB32);
  }
  QImage Frame() const { return canvas_->grabFramebuffer().convertToFormat(QImage::Format_RGB32); }
};

class PaintCount : public QObject {
 public:
  int paints = 0;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() == QEvent::Paint) ++paints;
    return QObject::eventFilter(watched, event);
  }
};

// A frame of one colour, and a ground of another.
class PlainSurface : public GlSurface {
 public:
  explicit PlainSurface(QWidget* parent, const QSurfaceFormat& format = QSurfaceFormat::defaultFormat())
      : GlSurface(parent, format) {}
  static constexpr QRgb kFrame = qRgb(0, 255, 0), kGround = qRgb(0, 0, 255);
  int frames = 0;
  int lowest_rows = 0;  // device pixels that are red

 protected:
  void initializeGL() override {}
  void paintGL() override {
    ++frames;
    QOpenGLFunctions* const gl = context()->functions();
    gl->glClearColor(0, 1, 0, 1);
    gl->glClear(GL_COLOR_BUFFER_BIT);
    if (lowest_rows == 0) return;
    gl->glEnable(GL_SCISSOR_TEST);
    gl->glScissor(0, 0, 100000, lowest_rows);  // OpenGL counts rows from below
    gl->glClearColor(1, 0, 0, 1);
    gl->glClear(GL_COLOR_BUFFER_BIT);
    gl->glDisable(GL_SCISSOR_TEST);
  }
  void resizeGL(int, int) override {}
  QColor Ground() const override { return QColor(kGround); }
};

// No OpenGL can be had with it.
QSurfaceFormat ImpossibleFormat() {
  QSurfaceFormat format;
  format.setRenderableType(QSurfaceFormat::OpenVG);
  return format;
}

// A PlainSurface in a window of its own.
class SurfaceTest : public ::testing::Test {
 protected:
  void Show(QSize size) {
    window_.resize(300, 200);
    surface_.resize(size);
    window_.show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(&window_));
    ASSERT_TRUE(QTest::qWaitFor([&] { return surface_.frames > 0 || !failed_.isEmpty(); }, 10000));
    QTest::qWait(30);  // the signals of the frame
  }
  // What the screen shows of it comes with the next paint.
  bool Shows(QRgb colour) {
    return QTest::qWaitFor(
        [&] {
          const QImage screen = window_.screen()->grabWindow(window_.winId()).toImage();
          return !screen.isNull() && screen.pixel(20, 5) == colour;
        },
        10000);
  }
  // As a driver that gives up: makeCurrent fails from now on.
  void LoseContext() {
    surface_.context()->setFormat(ImpossibleFormat());
    ASSERT_FALSE(surface_.context()->create());
  }

  QWidget window_;
  PlainSurface surface_{&window_};
  QSignalSpy swapped_{&surface_, &GlSurface::frameSwapped};
  QSignalSpy failed_{&surface_, &GlSurface::GraphicsFailed};
};

TEST_F(SurfaceTest, AFrameThatIsRefusedIsToldOfOnceAndTheGroundIsShown) {
  if (!surface_.DrawsIntoMemory()) GTEST_SKIP() << "QOpenGLWidget's own way to fail";
  Show({200000, 10});  // no driver has frames of that width
  ASSERT_EQ(failed_.size(), 1);
  EXPECT_TRUE(failed_[0][0].toString().contains("make the window smaller")) << failed_[0][0].toString().toStdString();
  EXPECT_TRUE(Shows(PlainSurface::kGround));
  surface_.RequestNewFrame();
  QTest::qWait(100);
  EXPECT_EQ(failed_.size(), 1);
  EXPECT_EQ(swapped_.size(), 0);
  EXPECT_EQ(surface_.frames, 0);
  EXPECT_TRUE(surface_.grabFramebuffer().isNull());
  // What it takes, it draws; what is refused behind that is news.
  surface_.resize(200, 10);
  EXPECT_TRUE(Shows(PlainSurface::kFrame));
  QTest::qWait(30);
  EXPECT_EQ(swapped_.size(), 1);
  surface_.resize(200000, 10);
  EXPECT_TRUE(Shows(PlainSurface::kGround));
  QTest::qWait(30);
  EXPECT_EQ(failed_.size(), 2);
  EXPECT_EQ(swapped_.size(), 1);
}

// CTest runs this where the driver turns the rows as it reads them, and where it does not.
TEST_F(SurfaceTest, AFramesHighestRowIsTheWidgetsHighest) {
  surface_.lowest_rows = 3;
  for (const QSize size : {QSize(200, 10), QSize(123, 47)}) {
    Show(size);
    surface_.resize(size);
    const QImage frame = surface_.grabFramebuffer().convertToFormat(QImage::Format_RGB32);
    ASSERT_EQ(frame.size(), size * surface_.devicePixelRatioF());
    for (int y = 0; y < frame.height(); ++y) {
      for (int x = 0; x < frame.width(); x += 7)
        ASSERT_EQ(frame.pixel(x, y) == qRgb(255, 0, 0), y >= frame.height() - 3) << x << ", " << y;
    }
  }
}

TEST_F(SurfaceTest, ALostContextIsToldOfOnceAndTheGroundIsShown) {
  if (!surface_.DrawsIntoMemory()) GTEST_SKIP() << "QOpenGLWidget's own way to fail";
  Show({200, 10});
  EXPECT_TRUE(Shows(PlainSurface::kFrame));
  ASSERT_EQ(swapped_.size(), 1);
  LoseContext();
  surface_.RequestNewFrame();
  EXPECT_TRUE(Shows(PlainSurface::kGround));
  surface_.resize(210, 10);
  QTest::qWait(100);
  ASSERT_EQ(failed_.size(), 1);
  EXPECT_TRUE(failed_[0][0].toString().contains("context is lost")) << failed_[0][0].toString().toStdString();
  EXPECT_EQ(swapped_.size(), 1);
}

// CTest runs this at 1.25 device pixels a logical one, too, where most edges of widgets lie between pixels.
TEST(SurfaceEdgesTest, NothingStaysOfWhatWasThereBefore) {
  QWidget window;
  window.setAutoFillBackground(true);
  const auto fill = [&](QRgb colour) { window.setPalette(QPalette(QColor(colour), QColor(colour))); };
  const QRgb before = qRgb(255, 0, 255), behind = qRgb(90, 90, 90);
  window.resize(460, 300);
  window.show();
  ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
  const auto screen = [&] { return window.screen()->grabWindow(window.winId()).toImage(); };
  const auto inside = [&] {
    const QImage shown = screen();
    return shown.isNull() ? QRgb{} : shown.pixel((QPointF(250, 160) * window.devicePixelRatioF()).toPoint());
  };
  for (int step = 0; step < 8; ++step) {
    fill(before);
    ASSERT_TRUE(QTest::qWaitFor([&] { return inside() == before; }, 10000));
    PlainSurface surface(&window);
    surface.setGeometry(101 + step % 4, 61 + step / 2, 303 + step / 4, 205 - step % 3);
    fill(behind);
    surface.show();
    ASSERT_TRUE(QTest::qWaitFor([&] { return inside() == PlainSurface::kFrame; }, 10000));
    QTest::qWait(30);
    const QImage shown = screen();
    for (int y = 0; y < shown.height(); ++y) {
      for (int x = 0; x < shown.width(); ++x)
        ASSERT_NE(shown.pixel(x, y), before) << "step " << step << ", pixel " << x << ", " << y;
    }
  }
}

QString last_surface_warning;

TEST_F(SurfaceTest, WhereMemoryIsRefusedTheWindowIsComposedAndAWarningSaysSo) {
  if (!surface_.DrawsIntoMemory()) GTEST_SKIP() << "no surface of this process is to be drawn into memory";
  last_surface_warning.clear();
  const QtMessageHandler before = qInstallMessageHandler(
      [](QtMsgType, const QMessageLogContext&, const QString& message) { last_surface_warning = message; });
  const PlainSurface refused(&window_, ImpossibleFormat());
  qInstallMessageHandler(before);
  EXPECT_FALSE(refused.DrawsIntoMemory());
  EXPECT_TRUE(last_surface_warning.contains("into memory")) << last_surface_warning.toStdString();
  EXPECT_FALSE(refused.findChildren<QOpenGLWidget*>().isEmpty());
}

TEST_F(GlSurfaceTest, ASoftwareRendererDrawsIntoMemory) {
  Show();
  canvas_->makeCurrent();
  const QByteArray renderer(
      reinterpret_cast<const char*>(QOpenGLContext::currentContext()->functions()->glGetString(GL_RENDERER)));
  canvas_->doneCurrent();
  const QByteArray wanted = qgetenv("HEADSCOPE_MAP_SURFACE");
  const bool into_memory = wanted.isEmpty() ? renderer.contains("llvmpipe") : wanted == "memory";
  EXPECT_EQ(canvas_->DrawsIntoMemory(), into_memory) << renderer.toStdString();
  EXPECT_EQ(canvas_->findChildren<QOpenGLWidget*>().isEmpty(), into_memory)
      << "one QOpenGLWidget, and the whole window is put together by OpenGL";
}

TEST_F(GlSurfaceTest, TheScreenShowsTheFrame) {
  Show({760, 480});  // on the screen as a whole, also at two device pixels a logical one (gui_canvas_hidpi_test)
  const QImage at_first = OnScreen();
  EXPECT_EQ(at_first, Frame());
  canvas_->ZoomTo(100, 160, 20, 90);
  Settle();
  const QImage zoomed = OnScreen();
  EXPECT_NE(zoomed, at_first) << "the screen is not read";
  EXPECT_EQ(zoomed, Frame());
  canvas_->resize(701, 433);
  Settle();
  EXPECT_EQ(OnScreen(), Frame());
}

TEST_F(GlSurfaceTest, WhatHasNotChangedIsPaintedWithoutANewFrame) {
  Show();
  if (!canvas_->DrawsIntoMemory()) GTEST_SKIP() << "a window that OpenGL puts together keeps its own picture";
  const QImage at_rest = OnScreen();
  const int64_t frames = canvas_->frames_drawn();
  PaintCount count;
  canvas_->installEventFilter(&count);
  canvas_->update();
  ASSERT_TRUE(QTest::qWaitFor([&] { return count.paints > 0; }, 10000));
  // A page over the map that goes again, and a label that blinks on it.
  QWidget page(canvas_.get());
  page.setAutoFillBackground(true);
  page.resize(300, 200);
  page.show();
  ASSERT_TRUE(QTest::qWaitFor([&] { return OnScreen() != at_rest; }, 10000));
  const int before = count.paints;
  page.hide();
  ASSERT_TRUE(QTest::qWaitFor([&] { return count.paints > before; }, 10000));
  Settle();
  EXPECT_EQ(OnScreen(), at_rest);
  EXPECT_EQ(canvas_->frames_drawn(), frames);
}

// Through the window, as a hand's: what lies over the map to show it must not take the pointer from it.
TEST_F(GlSurfaceTest, ThePointerIsTheCanvass) {
  Show();
  canvas_->SetPanelVisible(false);
  canvas_->GoTo(300, 236);
  Settle();
  QSignalSpy hovered(canvas_.get(), &HeadCanvas::CursorMoved);
  QSignalSpy marked(canvas_.get(), &HeadCanvas::ScoreMarked);
  const QPoint at = canvas_->PixelOf(305, 240).toPoint();
  QTest::mouseMove(canvas_->windowHandle(), at);
  ASSERT_TRUE(QTest::qWaitFor([&] { return !hovered.isEmpty() && hovered.back()[0].toLongLong() == 305; }, 10000));
  QTest::mousePress(canvas_->windowHandle(), Qt::LeftButton, {}, at);
  QTest::mouseRelease(canvas_->windowHandle(), Qt::LeftButton, {}, at);
  ASSERT_TRUE(QTest::qWaitFor([&] { return !marked.isEmpty(); }, 10000));
  EXPECT_EQ(marked.front()[0].toLongLong(), 305);
  EXPECT_EQ(marked.front()[1].toLongLong(), 240);
}

TEST_F(GlSurfaceTest, DocksAndFloatsWithAndWithoutANewOpenGlContext) {
  for (const bool shared : {true, false}) {
    QCoreApplication::setAttribute(Qt::AA_ShareOpenGLContexts, shared);
    QMainWindow window;
    window.setCentralWidget(new QWidget);
    QDockWidget dock;
    canvas_ = std::make_unique<HeadCanvas>();
    canvas_->SetWorkbench(&workbench_);
    canvas_->SetTrace(workbench_.Summary());
    canvas_->SetPanelVisible(false);
    canvas_->setFixedSize(600, 500);
    dock.setWidget(canvas_.get());
    window.addDockWidget(Qt::LeftDockWidgetArea, &dock);
    window.resize(900, 700);
    window.show();
    ASSERT_TRUE(QTest::qWaitForWindowExposed(&window));
    canvas_->ShowHead({.layer = 0, .head = 0});
    Settle();
    const QPointer<QOpenGLContext> first_context = canvas_->context();
    const QImage docked = canvas_->grabFramebuffer();
    dock.setFloating(true);
    Settle();
    EXPECT_EQ(canvas_->context() == first_context.data(), shared || canvas_->DrawsIntoMemory())
        << "where OpenGL puts the window together, another window without sharing means another context";
    EXPECT_EQ(canvas_->grabFramebuffer(), docked);
    dock.setFloating(false);
    Settle();
    EXPECT_EQ(canvas_->grabFramebuffer(), docked);
    dock.setWidget(nullptr);
    canvas_->setParent(nullptr);
    canvas_.reset();
  }
  QCoreApplication::setAttribute(Qt::AA_ShareOpenGLContexts, true);
}

}  // namespace
}  // namespace headscope::ui
