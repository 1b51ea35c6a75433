// SPDX-License-Identifier: Apache-2.0
// A widget that is drawn with OpenGL, as QOpenGLWidget is, without that class's price where there is no GPU.
//
// A window with a QOpenGLWidget anywhere in it is put together by OpenGL, whole, whatever has changed: a number in its
// status bar costs a frame of the window. A GPU does not notice; a software renderer takes 15 ms of processor time for
// 1400 x 860 pixels. There, the frame is drawn into memory and painted like any other widget, and the window stays one
// of which the changed parts alone are copied.
#pragma once

#include <QColor>
#include <QImage>
#include <QString>
#include <QSurfaceFormat>
#include <QWidget>
#include <memory>

class QOpenGLContext;
class QOpenGLWidget;

namespace headscope::ui {

class GlSurface : public QWidget {
  Q_OBJECT

 public:
  ~GlSurface() override;

  // Whether frames are drawn into memory: where OpenGL's renderer is a known piece of software, unless
  // HEADSCOPE_MAP_SURFACE says "memory" or "window". Where OpenGL refuses that, they are not, and a warning says so.
  bool DrawsIntoMemory() const { return memory_ != nullptr; }

  // As QOpenGLWidget's. The context may be null before the first frame, and without OpenGL.
  QOpenGLContext* context() const;
  void makeCurrent();
  void doneCurrent();
  QImage grabFramebuffer();  // draws a frame; null where that failed

  // What was drawn is not what it should be. update() alone may show the last frame once more.
  void RequestNewFrame();

 Q_SIGNALS:
  void frameSwapped();  // a new frame is on the screen
  // There is no frame, and the ground is shown in its place; one sentence. Each paint tries again, and a failure is
  // told of anew only behind a frame that was drawn.
  void GraphicsFailed(const QString& message);

 protected:
  GlSurface(QWidget* parent, const QSurfaceFormat& format);

  // As QOpenGLWidget's, with the context made current. A subclass releases what it has made in its own destructor.
  virtual void initializeGL() = 0;
  virtual void paintGL() = 0;
  virtual void resizeGL(int width, int height) = 0;
  virtual QColor Ground() const = 0;  // shown where there is no frame

  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  class Composed;
  class Memory;
  void DrawIntoMemory();  // leaves a null image where it failed

  QOpenGLWidget* composed_ = nullptr;  // a child that fills this widget; or else:
  std::unique_ptr<Memory> memory_;
};

}  // namespace headscope::ui
