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
#include "visible_focus.h"

namespace headscope::ui {
namespace {

constexpr double kPngScale = 2;
constexpr int kPdfResolution = 96;     // of the screen: a pixel is a pixel
constexpr QSize kLeastSize(640, 400);  // a pane in a corner, or behind a tab, has room for half its letters

void Draw(QWidget* widget, QPaintDevice* device, double scale) {
  QPainter painter(device);
  painter.scale(scale, scale);
  widget->render(&painter, QPoint(), QRegion(), QWidget::DrawChildren);
}

bool DrawAs(QWidget* widget, std::optional<FileFormat> format, int png_width, QBuffer* buffer) {
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
  const double scale = png_width > 0 ? static_cast<double>(png_width) / widget->width() : kPngScale;
  QImage image((QSizeF(widget->size()) * scale).toSize(), QImage::Format_RGB32);
  if (image.isNull()) return false;
  Draw(widget, &image, scale);
  return image.save(buffer, "PNG");
}

}  // namespace

QString WritePicture(QWidget* widget, const QString& path, int png_width) {
  const std::optional<FileFormat> format = FindFileFormat(path.toStdString());
  if (format != FileFormat::kSvg && format != FileFormat::kPdf && format != FileFormat::kPng)
    return QObject::tr("%1: the extension must be .svg, .pdf or .png.").arg(path);
  const PaintedForFile without_focus(widget);
  const QPalette before = widget->palette();
  const QSize size_before = widget->size(), least_before = widget->minimumSize();
  widget->setPalette(LightPalette());  // for paper
  const QSize size = size_before.expandedTo(kLeastSize).expandedTo(widget->minimumSizeHint());
  // The least size holds where drawing lays the pane out first, as it does of one behind a tab.
  widget->setMinimumSize(size);
  widget->resize(size);
  QBuffer buffer;
  buffer.open(QIODevice::WriteOnly);
  const bool drawn = DrawAs(widget, format, png_width, &buffer);
  widget->setMinimumSize(least_before);
  widget->resize(size_before);
  widget->setPalette(before);
  if (!drawn) return QObject::tr("%1: there is no memory for a picture of this width; choose a smaller one.").arg(path);
  QSaveFile file(path);
  if (!file.open(QIODevice::WriteOnly) || file.write(buffer.data()) != buffer.size() || !file.commit())
    return QObject::tr("%1 cannot be written (%2): choose another folder.").arg(path, file.errorString());
  return {};
}

}  // namespace headscope::ui
