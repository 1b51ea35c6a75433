// SPDX-License-Identifier: Apache-2.0
#include "qt_matrix_surface.h"

#include <QBrush>
#include <QFontMetricsF>
#include <QPen>
#include <QPointF>
#include <QString>

namespace headscope::ui {

QtMatrixSurface::QtMatrixSurface(const QFont& font, const QPalette& palette, QPainter* painter)
    : font_(font), palette_(palette), painter_(painter) {}

QFont QtMatrixSurface::FontOf(Text kind) const {
  const double share = kind == Text::kCell ? 0.78 : kind == Text::kLabel ? 0.85 : 0.88;
  QFont small = font_;
  small.setPointSizeF(font_.pointSizeF() * share);
  return small;
}

QColor QtMatrixSurface::InkOf(Text kind) const {
  QColor ink = palette_.color(QPalette::Text);
  if (kind == Text::kLabel) ink.setAlphaF(0.65f);
  return ink;
}

void QtMatrixSurface::Fill(const analysis::Box& box, analysis::Rgb color) {
  painter_->fillRect(ToQt(box), ToQt(color));
}

void QtMatrixSurface::Hatch(const analysis::Box& box) {
  QColor hatch = palette_.color(QPalette::Text);
  hatch.setAlphaF(0.28f);
  painter_->fillRect(ToQt(box), palette_.alternateBase());
  painter_->fillRect(ToQt(box), QBrush(hatch, Qt::BDiagPattern));
}

void QtMatrixSurface::Line(double x0, double y0, double x1, double y1) {
  painter_->setPen(InkOf(Text::kLabel));
  painter_->drawLine(QPointF(x0, y0), QPointF(x1, y1));
}

void QtMatrixSurface::Write(Text kind, double x, double y, Anchor anchor, const std::string& text,
                            std::optional<analysis::Rgb> ink) {
  painter_->setFont(FontOf(kind));
  painter_->setPen(ink ? ToQt(*ink) : InkOf(kind));
  const double width = Width(kind, text) + 2, height = Height(kind);
  const double left = anchor == Anchor::kLeft ? x : anchor == Anchor::kRight ? x - width : x - width / 2;
  const auto side = anchor == Anchor::kLeft    ? Qt::AlignLeft
                    : anchor == Anchor::kRight ? Qt::AlignRight
                                               : Qt::AlignHCenter;
  painter_->drawText(QRectF(left, y - height / 2, width, height), static_cast<int>(side | Qt::AlignVCenter),
                     QString::fromStdString(text));
}

void QtMatrixSurface::WriteUpwards(double x, double y, const std::string& text) {
  painter_->save();
  painter_->translate(x, y);
  painter_->rotate(-90);
  Write(Text::kLabel, 0, 0, Anchor::kCentre, text, std::nullopt);
  painter_->restore();
}

double QtMatrixSurface::Width(Text kind, const std::string& text) const {
  return QFontMetricsF(FontOf(kind)).horizontalAdvance(QString::fromStdString(text));
}

double QtMatrixSurface::Height(Text kind) const {
  return QFontMetricsF(FontOf(kind)).height();
}

}  // namespace headscope::ui
