// SPDX-License-Identifier: Apache-2.0
#include "gl_surface.h"

#include <QOffscreenSurface>
#include <QOpenGLContext>
#include <QOpenGLExtraFunctions>
#include <QOpenGLFramebufferObject>
#include <QOpenGLWidget>
#include <QPaintEvent>
#include <QPainter>
#include <QResizeEvent>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#ifndef GL_PACK_INVERT_MESA
#define GL_PACK_INVERT_MESA 0x8758
#endif

namespace headscope::ui {

namespace {

// In the names that Mesa's, Windows' and SwiftShader's software renderers give themselves.
constexpr const char* kSoftwareRenderers[] = {
    "llvmpipe", "softpipe", "swrast", "Software Rasterizer", "GDI Generic", "Basic Render Driver", "SwiftShader"};
constexpr QSize kTriedSize(16, 16);  // of the frame that is made to see whether any can be

bool IsSoftware(const QSurfaceFormat& format) {
  QOffscreenSurface surface;
  surface.setFormat(format);
  surface.create();
  QOpenGLContext own;
  QOpenGLContext* context = QOpenGLContext::globalShareContext();
  if (context == nullptr) {
    own.setFormat(format);
    if (!own.create()) return false;
    context = &own;
  }
  if (!surface.isValid() || !context->makeCurrent(&surface)) return false;
  const GLubyte* const renderer = context->functions()->glGetString(GL_RENDERER);
  const QByteArray name(reinterpret_cast<const char*>(renderer));
  context->doneCurrent();
  return std::any_of(std::begin(kSoftwareRenderers), std::end(kSoftwareRenderers),
                     [&](const char* one) { return name.contains(one); });
}

// Found out once.
bool WantsMemory() {
  static const bool wants_memory = [] {
    const QByteArray wanted = qgetenv("HEADSCOPE_MAP_SURFACE");
    if (wanted == "memory" || wanted == "window") return wanted == "memory";
    if (!wanted.isEmpty()) qWarning("HEADSCOPE_MAP_SURFACE is \"%s\": set it to memory or window.", wanted.constData());
    return IsSoftware(QSurfaceFormat::defaultFormat());
  }();
  return wants_memory;
}

}  // namespace

// It takes no input: this is the surface's.
class GlSurface::Composed : public QOpenGLWidget {
 public:
  explicit Composed(GlSurface* surface) : QOpenGLWidget(surface), surface_(surface) {
    setAttribute(Qt::WA_TransparentForMouseEvents);
    setFocusPolicy(Qt::NoFocus);
  }

 protected:
  void initializeGL() override { surface_->initializeGL(); }
  void paintGL() override { surface_->paintGL(); }
  void resizeGL(int width, int height) override { surface_->resizeGL(width, height); }

 private:
  GlSurface* const surface_;
};

class GlSurface::Memory {
 public:
  explicit Memory(const QSurfaceFormat& format) {
    surface.setFormat(format);
    surface.create();
    context.setFormat(format);
    if (!context.create() || !surface.isValid() || !context.makeCurrent(&surface)) return;
    works = QOpenGLFramebufferObject(kTriedSize).isValid();
    turns_rows = context.hasExtension(QByteArrayLiteral("GL_MESA_pack_invert"));
    context.doneCurrent();
  }

  bool MakeCurrent() {
    if (!works || !context.makeCurrent(&surface)) return false;
    if (target) target->bind();
    return true;
  }

  // With the context made current. The sentence of what is missing; empty: both are there, and the target is bound.
  QString MakeRoom(QSize pixels) {
    if (!target || target->size() != pixels || !target->isValid())
      target = std::make_unique<QOpenGLFramebufferObject>(pixels);
    if (!target->isValid() || !target->bind()) {
      return QStringLiteral("The graphics driver refused a map of %1 x %2 pixels: make the window smaller.")
          .arg(pixels.width())
          .arg(pixels.height());
    }
    if (image.size() != pixels) image = QImage(pixels, QImage::Format_RGB32);
    if (image.isNull()) {
      return QStringLiteral("There is no memory for a map of %1 x %2 pixels: make the window smaller.")
          .arg(pixels.width())
          .arg(pixels.height());
    }
    return {};
  }

  // Reads what was drawn: OpenGL's first row is the lowest one. Mesa's drivers turn them as they read.
  void Read() {
    const QSize size = target->size();
    const auto bytes = static_cast<size_t>(image.bytesPerLine());
    if (!turns_rows) read.resize(bytes * static_cast<size_t>(size.height()));
    QOpenGLExtraFunctions* const gl = context.extraFunctions();
    target->bind();
    gl->glPixelStorei(GL_PACK_ALIGNMENT, 4);
    if (turns_rows) gl->glPixelStorei(GL_PACK_INVERT_MESA, GL_TRUE);
    gl->glReadPixels(0, 0, size.width(), size.height(), GL_BGRA, GL_UNSIGNED_INT_8_8_8_8_REV,
                     turns_rows ? image.bits() : read.data());
    if (turns_rows) {
      gl->glPixelStorei(GL_PACK_INVERT_MESA, GL_FALSE);
      return;
    }
    for (int row = 0; row < size.height(); ++row)
      std::memcpy(image.scanLine(row), read.data() + bytes * static_cast<size_t>(size.height() - 1 - row), bytes);
  }

  QOffscreenSurface surface;
  QOpenGLContext context;
  bool works = false;
  bool turns_rows = false;  // the driver can read the highest row first
  bool initialised = false;
  bool stale = true;  // the image is not what is to be shown
  bool told = false;  // that there is no frame
  std::unique_ptr<QOpenGLFramebufferObject> target;
  QImage image;
  std::vector<unsigned char> read;  // upside down, where the driver reads no other way
};

GlSurface::GlSurface(QWidget* parent, const QSurfaceFormat& format) : QWidget(parent) {
  if (WantsMemory()) {
    memory_ = std::make_unique<Memory>(format);
    if (memory_->works) {
      setAttribute(Qt::WA_OpaquePaintEvent);
      return;
    }
    memory_.reset();
    qWarning(
        "OpenGL refuses to draw the map into memory, so it puts the whole window together, which costs more processor "
        "time: update the graphics driver, or set HEADSCOPE_MAP_SURFACE to window.");
  }
  composed_ = new Composed(this);
  composed_->setFormat(format);
  connect(composed_, &QOpenGLWidget::frameSwapped, this, &GlSurface::frameSwapped);
}

GlSurface::~GlSurface() {
  if (memory_ && memory_->MakeCurrent()) memory_->target.reset();
}

QOpenGLContext* GlSurface::context() const {
  return memory_ ? &memory_->context : composed_->context();
}

void GlSurface::makeCurrent() {
  if (memory_) {
    memory_->MakeCurrent();
  } else {
    composed_->makeCurrent();
  }
}

void GlSurface::doneCurrent() {
  if (memory_) {
    memory_->context.doneCurrent();
  } else {
    composed_->doneCurrent();
  }
}

QImage GlSurface::grabFramebuffer() {
  if (!memory_) return composed_->grabFramebuffer();
  DrawIntoMemory();
  return memory_->image.copy();
}

void GlSurface::RequestNewFrame() {
  if (memory_) {
    memory_->stale = true;
    update();
  } else {
    composed_->update();
  }
}

void GlSurface::DrawIntoMemory() {
  Memory& memory = *memory_;
  const double ratio = devicePixelRatioF();
  const QSize pixels(static_cast<int>(std::lround(width() * ratio)), static_cast<int>(std::lround(height() * ratio)));
  if (pixels.isEmpty()) return;
  QString failure;
  if (memory.MakeCurrent()) {
    if (!memory.initialised) {
      memory.initialised = true;
      initializeGL();
    }
    failure = memory.MakeRoom(pixels);
  } else {
    failure = QStringLiteral("The map's OpenGL context is lost: start headscope again.");
  }
  if (!failure.isEmpty()) {
    memory.image = {};
    memory.stale = true;
    // From within a paint event, in which no slot may open a dialog.
    if (!std::exchange(memory.told, true))
      QMetaObject::invokeMethod(
          this, [this, failure] { Q_EMIT GraphicsFailed(failure); }, Qt::QueuedConnection);
    return;
  }
  memory.told = false;
  memory.stale = false;  // the frame may ask for another one
  paintGL();
  memory.Read();
  memory.image.setDevicePixelRatio(ratio);
}

void GlSurface::paintEvent(QPaintEvent* event) {
  if (!memory_) return;
  Memory& memory = *memory_;
  const bool draws = memory.stale || memory.image.devicePixelRatio() != devicePixelRatioF();
  if (draws) DrawIntoMemory();
  QPainter painter(this);
  // At 1.25 device pixels a logical one, say, the widget's edges lie between pixels, and the image ends a line early.
  const double ratio = devicePixelRatioF();
  if (memory.image.isNull() || ratio != std::floor(ratio)) painter.fillRect(event->rect(), Ground());
  if (memory.image.isNull()) return;
  // The window copies it to the screen when all of it is painted.
  if (draws) QMetaObject::invokeMethod(this, &GlSurface::frameSwapped, Qt::QueuedConnection);
  painter.setClipRegion(event->region());
  painter.setCompositionMode(QPainter::CompositionMode_Source);
  painter.drawImage(0, 0, memory.image);
}

void GlSurface::resizeEvent(QResizeEvent* event) {
  if (composed_ != nullptr) {
    composed_->resize(event->size());
    return;
  }
  memory_->stale = true;
  if (event->size().isEmpty() || !memory_->MakeCurrent()) return;
  if (!memory_->initialised) {
    memory_->initialised = true;
    initializeGL();
  }
  resizeGL(event->size().width(), event->size().height());
}

}  // namespace headscope::ui
