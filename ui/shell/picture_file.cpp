// SPDX-License-Identifier: Apache-2.0
#include "picture_file.h"

#include <QBuffer>
#include <QFileInfo>
#include <QImage>
#include <QPainter>
#include <QPdfWriter>
#include <QSaveFile>
#include <QSvgGenerator>

#include "base/file_format.h"
#include "theme.h"

namespace headscope::ui {
namespace {

constexpr int kPngScale = 2, kPdfResolution = 96;  // of the screen: a pixel is a pixel

void Draw(QWidget* widget, QPaintDevice* device, int scale) {
  QPainter painter(device);
  painter.scale(scale, scale);
  widget->render(&painter, QPoint(), QRegion(), QWidget::DrawChildren);
}

bool DrawAs(QWidget* widget, std::optional<FileFormat> format, QBuffer* buffer) {
  if (format == FileFormat::kSvg) {
    QSvgGenerator svg;
    svg.setOutputDevice(buffer);
    svg.setSize(widget->size());
    svg.setViewBox(widget->rect());
    svg.setTitle(widget->accessibleName());
    Draw(widget, &svg, 1);
    return true;
  }
  if (format == FileFormat::kPdf) {
    QPdfWriter pdf(buffer);
    pdf.setResolution(kPdfResolution);
    pdf.setPageMargins({});
    pdf.setPageSize(
        QPageSize(QSizeF(widget->size()) * 72 / kPdfResolution, QPageSize::Point, QString(), QPageSize::ExactMatch));
    pdf.setTitle(widget->accessibleName());
    Draw(widget, &pdf, 1);
    return true;
  }
  if (format != FileFormat::kPng) return false;
  QImage image(widget->size() * kPngScale, QImage::Format_RGB32);
  Draw(widget, &image, kPngScale);
  return image.save(buffer, "PNG");
}

}  // namespace

QString WritePicture(QWidget* widget, const QString& path) {
  const QPalette before = widget->palette();
  widget->setPalette(LightPalette());  // for paper
  QBuffer buffer;
  buffer.open(QIODevice::WriteOnly);
  const bool drawn = DrawAs(widget, FindFileFormat(path.toStdString()), &buffer);
  widget->setPalette(before);
  if (!drawn) return QObject::tr("%1: the extension must be .svg, .pdf or .png.").arg(path);
  QSaveFile file(path);
  if (!file.open(QIODevice::WriteOnly) || file.write(buffer.data()) != buffer.size() || !file.commit())
    return QObject::tr("%1 cannot be written (%2): choose another folder.").arg(path, file.errorString());
  return {};
}

}  // namespace headscope::ui
