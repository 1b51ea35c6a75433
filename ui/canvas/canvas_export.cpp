// SPDX-License-Identifier: Apache-2.0
// The canvas as a PNG file of any size, drawn by the same code into a framebuffer of its own.
#include <QApplication>
#include <QBuffer>
#include <QOpenGLFramebufferObject>
#include <QPointer>
#include <QSaveFile>
#include <QThreadPool>
#include <algorithm>
#include <cmath>

#include "canvas_widget_impl.h"
#include "map_overlay.h"

namespace headscope::ui {

namespace {

// The greatest side's pixels need about 150 MB of tiles at once, which the tile cache holds.
constexpr int kMaxExportSide = HeadCanvas::kMostPictureSide;
constexpr int kMinExportSide = 300;

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

}  // namespace

void HeadCanvas::Impl::StartExport(const QString& path, QSize size, double scale) {
  const auto refuse = [&](const QString& reason) {
    AfterFrame([this, path, reason] { Q_EMIT canvas->PngExported(path, reason); });
  };
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
  picture.ground = model.settings().picture_ground;
  picture.canvas = QSize(static_cast<int>(std::lround(size.width() / picture.scale)),
                         static_cast<int>(std::lround(size.height() / picture.scale)));
  picture.layout = LayOutCanvas(picture.canvas.width(), picture.canvas.height(), model.Parts(/*captions=*/true));
  // What the window shows, as large as it fits the picture.
  LayOut();
  picture.view = model.view();
  const ScoreRect visible = model.view().Visible();
  picture.view.SetViewport(picture.layout.map);
  picture.view.ZoomTo(visible);
  export_ = picture;
  AdvanceExport();
}

void HeadCanvas::Impl::CancelExport() {
  export_.reset();
  RequestFrame();  // the next frame asks for the window's own tiles again
}

void HeadCanvas::Impl::AdvanceExport() {
  if (!export_) return;
  if (!model.head()) {
    const QString path = export_->path;
    export_.reset();
    Q_EMIT canvas->PngExported(
        path, QStringLiteral("The export was cancelled because its head is gone: choose a head and export again."));
    return;
  }
  model.tiles().Want(model.Demand(export_->view, export_->scale));
  if (model.tiles().num_pending() > 0) return;
  const Export picture = *export_;
  export_.reset();
  AfterFrame([this, picture] { DrawExport(picture); });
}

void HeadCanvas::Impl::DrawExport(const Export& picture) {
  if (!renderer.ready()) {
    Q_EMIT canvas->PngExported(
        picture.path, QStringLiteral("The canvas lost its graphics during the export: show it and export again."));
    return;
  }
  canvas->makeCurrent();
  QImage image;
  {
    QOpenGLFramebufferObject framebuffer(picture.size);
    framebuffer.bind();
    MapLook look = model.Look();
    if (picture.ground == PictureGround::kLight) look.ground = analysis::kLightGround;
    renderer.Clear(picture.size, look.ground);
    const double scale = picture.scale;
    renderer.Draw(model.Picture(picture.view, scale), look, model.rows(), picture.size, scale);
    const ViewProfiles profiles = model.Profiles(picture.view, scale);
    // A context of its own: the size of a frame moves ImGui's windows, and the window's panel should stay where it is.
    ImGuiBridge paper;
    if (paper.InitGraphics()) {
      paper.NewFrame(picture.canvas, scale, 0);
      OverlayOptions options;
      options.view = &picture.view;
      options.layout = &picture.layout;
      options.profiles = &profiles;
      options.device_pixel_ratio = scale;
      options.ground = picture.ground;
      options.live = false;
      DrawMapOverlay(model, options);
      paper.Render();
      image = framebuffer.toImage().convertToFormat(QImage::Format_RGB32);
      paper.ReleaseGraphics();
    }
    framebuffer.release();
  }
  canvas->doneCurrent();
  bridge.MakeCurrent();

  RequestFrame();
  if (image.isNull()) {
    Q_EMIT canvas->PngExported(
        picture.path, QStringLiteral("The graphics driver refused a picture of %1 x %2 pixels: choose a smaller one.")
                          .arg(picture.size.width())
                          .arg(picture.size.height()));
    return;
  }
  // A large picture takes longer to encode than a window may stand still. The application waits for it as it ends.
  QThreadPool::globalInstance()->start([image, path = picture.path, shown = QPointer<HeadCanvas>(canvas)] {
    const QString error = WritePng(image, path);
    QMetaObject::invokeMethod(
        qApp,
        [path, error, shown] {
          if (shown) Q_EMIT shown->PngExported(path, error);
        },
        Qt::QueuedConnection);
  });
}

}  // namespace headscope::ui
