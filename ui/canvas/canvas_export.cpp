// SPDX-License-Identifier: Apache-2.0
// The canvas as a picture of any size, drawn by the same code into a framebuffer of its own: step by step, each of them
// an event of its own, for the window goes on in between.
#include <QApplication>
#include <QBuffer>
#include <QOpenGLExtraFunctions>
#include <QPointer>
#include <QSaveFile>
#include <QThreadPool>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "canvas_widget_impl.h"
#include "map_overlay.h"

namespace headscope::ui {

namespace {

// The greatest side's pixels need about 150 MB of tiles at once, which the tile cache holds.
constexpr int kMaxExportSide = HeadCanvas::kMostPictureSide;
constexpr int kMinExportSide = 300;
// Of one step, on a software renderer about 10 ms of the window's thread.
constexpr size_t kQuadsAtOnce = 16;
constexpr int64_t kPixelsReadAtOnce = int64_t{1} << 20;

// Returns an empty string or the error.
QString WritePng(const QImage& image, const QString& path) {
  // Encoded before any of it is written: Qt's PNG writer loses its memory when the disk refuses a part.
  QByteArray png;
  QBuffer buffer(&png);
  QSaveFile file(path);
  const bool written = buffer.open(QIODevice::WriteOnly) && image.save(&buffer, "PNG") &&
                       file.open(QIODevice::WriteOnly) && file.write(png) == png.size() && file.flush() &&
                       file.commit();  // commit() alone puts a file in place whose last buffer found the disk full
  return written ? QString()
                 : QStringLiteral("%1 could not be written: %2. Choose another folder.").arg(path, file.errorString());
}

// OpenGL's first row is the lowest.
QImage Upright(const QImage& read) {
  QImage picture(read.size(), QImage::Format_RGB32);
  for (int y = 0; y < read.height(); ++y) {
    const auto* const from = reinterpret_cast<const QRgb*>(read.constScanLine(read.height() - 1 - y));
    auto* const to = reinterpret_cast<QRgb*>(picture.scanLine(y));
    std::transform(from, from + read.width(), to, [](QRgb pixel) { return pixel | 0xff000000u; });
  }
  return picture;
}

}  // namespace

CanvasLayout HeadCanvas::PictureLayout(QSize size) const {
  return LayOutCanvas(size.width(), size.height(), impl_->model.PictureParts(size.width()));
}

void HeadCanvas::Impl::TellOfExport(const QString& path, const QString& error, const QImage& picture) {
  if (path.isEmpty()) {
    Q_EMIT canvas->PictureMade(picture, error);
  } else {
    Q_EMIT canvas->PngExported(path, error);
  }
}

void HeadCanvas::Impl::StartExport(const QString& path, QSize size, double scale) {
  const auto refuse = [&](const QString& reason) { AfterFrame([this, path, reason] { TellOfExport(path, reason); }); };
  if (std::min(size.width(), size.height()) < kMinExportSide ||
      std::max(size.width(), size.height()) > kMaxExportSide) {
    refuse(QStringLiteral("A picture of %1 x %2 pixels cannot be exported: choose between %3 and %4 on each side.")
               .arg(size.width())
               .arg(size.height())
               .arg(kMinExportSide)
               .arg(kMaxExportSide));
    return;
  }
  if (!model.head()) return refuse(QStringLiteral("There is no head to export: choose one first."));
  if (!renderer.ready()) return refuse(QStringLiteral("The canvas has not been drawn yet: show it before exporting."));
  Export picture;
  picture.path = path;
  picture.size = size;
  picture.scale = std::max(scale, 1.0);
  picture.ground = model.picture_ground();
  picture.canvas = QSize(static_cast<int>(std::lround(size.width() / picture.scale)),
                         static_cast<int>(std::lround(size.height() / picture.scale)));
  picture.layout = canvas->PictureLayout(picture.canvas);
  // What the window shows, as large as it fits the picture.
  LayOut();
  picture.view = model.view();
  const ScoreRect visible = model.view().Visible();
  picture.view.SetViewport(picture.layout.map);
  picture.view.ZoomTo(visible);
  DropDrawing();
  export_ = picture;
  AdvanceExport();
}

void HeadCanvas::Impl::CancelExport() {
  export_.reset();
  DropDrawing();
  RequestFrame();  // the next frame asks for the window's own tiles again
}

void HeadCanvas::Impl::AdvanceExport() {
  if (!export_) return;
  if (!model.head()) {
    const QString path = export_->path;
    export_.reset();
    TellOfExport(path,
                 QStringLiteral("The export was cancelled because its head is gone: choose a head and export again."));
    return;
  }
  model.tiles().Want(model.Demand(export_->view, export_->scale));
  if (model.tiles().num_pending() > 0) return;
  drawing_ = std::make_unique<Drawing>();
  drawing_->picture = *std::exchange(export_, std::nullopt);
  // The paper comes first, so that what is there is gathered at once when it is ready, and drawn whatever comes then.
  NextStep(&Impl::PreparePaper);
}

void HeadCanvas::Impl::NextStep(bool (Impl::*step)()) {
  AfterFrame([this, step, number = drawing_->number = ++last_drawing_] {
    if (!drawing_ || drawing_->number != number) return;  // given up since
    canvas->makeCurrent();
    const bool goes_on = (this->*step)();
    canvas->doneCurrent();
    bridge.MakeCurrent();
    if (!goes_on) RequestFrame();
  });
}

void HeadCanvas::Impl::DropDrawing() {
  if (!drawing_) return;
  if (drawing_->framebuffer) canvas->makeCurrent();
  const bool was_current = drawing_->framebuffer != nullptr;
  drawing_.reset();
  if (was_current) canvas->doneCurrent();
}

bool HeadCanvas::Impl::PreparePaper() {
  // Text is laid out in a context of its own: the size of a frame moves ImGui's windows, and the window's panel should
  // stay where it is. It is kept for the next picture, whose letters are often of the same size.
  if (!paper_.InitGraphics()) {
    const QString path = std::exchange(drawing_, nullptr)->picture.path;
    TellOfExport(path, QStringLiteral("The graphics driver refused to draw a picture: update it, and export again."));
    return false;
  }
  NextStep(&Impl::PrepareLetters);
  return true;
}

bool HeadCanvas::Impl::PrepareLetters() {
  paper_.PrepareLetters(drawing_->picture.scale);
  NextStep(&Impl::PrepareFonts);
  return true;
}

bool HeadCanvas::Impl::PrepareFonts() {
  paper_.PrepareFonts(drawing_->picture.scale);
  NextStep(&Impl::GatherPicture);
  return true;
}

bool HeadCanvas::Impl::GatherPicture() {
  // Another head may have been chosen while the letters were drawn: a picture is of what is there, and waits for it.
  if (model.head()) model.tiles().Want(model.Demand(drawing_->picture.view, drawing_->picture.scale));
  if (!model.head() || model.tiles().num_pending() > 0) {
    export_ = std::move(drawing_->picture);
    drawing_.reset();
    AdvanceExport();
    return false;
  }
  Drawing& drawing = *drawing_;
  const Export& picture = drawing.picture;
  drawing.map = model.Picture(picture.view, picture.scale);
  drawing.rows = model.rows();
  drawing.look = model.Look();
  drawing.look.ground = picture.ground == PictureGround::kLight ? analysis::kLightGround : analysis::kDarkGround;
  const ViewProfiles profiles = model.Profiles(picture.view, picture.scale);
  paper_.NewFrame(picture.canvas, picture.scale, 0);
  OverlayOptions options;
  options.view = &picture.view;
  options.layout = &picture.layout;
  options.profiles = &profiles;
  options.device_pixel_ratio = picture.scale;
  options.ground = picture.ground;
  options.live = false;
  DrawMapOverlay(model, options);
  paper_.EndFrame();
  NextStep(&Impl::PrepareFramebuffer);
  return true;
}

bool HeadCanvas::Impl::PrepareFramebuffer() {
  const QSize size = drawing_->picture.size;
  drawing_->framebuffer = std::make_unique<QOpenGLFramebufferObject>(size);
  if (!drawing_->framebuffer->bind()) {
    const QString path = drawing_->picture.path;
    drawing_.reset();
    TellOfExport(path, QStringLiteral("The graphics driver refused a picture of %1 x %2 pixels: choose a smaller one.")
                           .arg(size.width())
                           .arg(size.height()));
    return false;
  }
  drawing_->framebuffer->release();
  NextStep(&Impl::DrawPicture);
  return true;
}

bool HeadCanvas::Impl::DrawPicture() {
  Drawing& drawing = *drawing_;
  const QSize size = drawing.picture.size;
  drawing.framebuffer->bind();
  if (!std::exchange(drawing.cleared, true)) {
    renderer.Clear(size, drawing.look.ground);
    drawing.framebuffer->release();
    NextStep(&Impl::DrawPicture);
    return true;
  }
  // The hatching lies under all of the map, so it comes first; the letters come last. Each is a program of its own,
  // which a driver that has not met it compiles as it first draws: together three of them took 160 ms in software.
  MapPicture part = drawing.map;
  const bool hatches = !std::exchange(drawing.hatching_drawn, true);
  if (!hatches) part.hatched = {};
  const size_t end = hatches ? 0 : std::min(drawing.quads_drawn + kQuadsAtOnce, drawing.map.quads.size());
  part.quads.assign(drawing.map.quads.begin() + static_cast<std::ptrdiff_t>(drawing.quads_drawn),
                    drawing.map.quads.begin() + static_cast<std::ptrdiff_t>(end));
  renderer.Draw(part, drawing.look, drawing.rows, size, drawing.picture.scale);
  drawing.quads_drawn = end;
  drawing.framebuffer->release();
  NextStep(end == drawing.map.quads.size() ? &Impl::DrawLetters : &Impl::DrawPicture);
  return true;
}

bool HeadCanvas::Impl::DrawLetters() {
  drawing_->framebuffer->bind();
  paper_.DrawFrame();
  drawing_->framebuffer->release();
  NextStep(&Impl::ReadPicture);
  return true;
}

bool HeadCanvas::Impl::ReadPicture() {
  Drawing& drawing = *drawing_;
  const QSize size = drawing.picture.size;
  if (drawing.read.isNull()) drawing.read = QImage(size, QImage::Format_RGB32);
  if (drawing.read.isNull()) {
    const QString path = drawing.picture.path;
    drawing_.reset();
    TellOfExport(path, QStringLiteral("There is no memory for a picture of %1 x %2 pixels: choose a smaller one.")
                           .arg(size.width())
                           .arg(size.height()));
    return false;
  }
  const int rows =
      static_cast<int>(std::clamp<int64_t>(kPixelsReadAtOnce / size.width(), 1, size.height() - drawing.rows_read));
  QOpenGLExtraFunctions* const gl = canvas->context()->extraFunctions();
  drawing.framebuffer->bind();
  gl->glPixelStorei(GL_PACK_ALIGNMENT, 4);
  gl->glReadPixels(0, drawing.rows_read, size.width(), rows, GL_BGRA, GL_UNSIGNED_INT_8_8_8_8_REV,
                   drawing.read.scanLine(drawing.rows_read));
  drawing.framebuffer->release();
  drawing.rows_read += rows;
  if (drawing.rows_read < size.height()) {
    NextStep(&Impl::ReadPicture);
    return true;
  }
  const QImage read = std::move(drawing.read);
  const QString path = drawing.picture.path;
  drawing_.reset();
  // A large picture takes longer to encode than a window may stand still. The application waits for it as it ends.
  QThreadPool::globalInstance()->start([this, read, path, shown = QPointer<HeadCanvas>(canvas)] {
    const QImage picture = Upright(read);
    const QString error = path.isEmpty() ? QString() : WritePng(picture, path);
    QMetaObject::invokeMethod(
        qApp,
        [this, path, error, picture, shown] {
          if (shown) TellOfExport(path, error, picture);
        },
        Qt::QueuedConnection);
  });
  return false;
}

}  // namespace headscope::ui
