// SPDX-License-Identifier: Apache-2.0
#include "qt_matrix_surface.h"

#include <QBrush>
#include <QPen>
#include <QPointF>
#include <QString>

namespace headscope::ui {

namespace {

QFont Sized(const QFont& font, double share) {
  QFont sized = font;
  sized.setPointSizeF(font.pointSizeF() * share);
  return sized;
}

}  // namespace

QtMatrixSurface::QtMatrixSurface(const QFont& font, const QPalette& palette, QPainter* painter)
    : label_(Sized(font, 0.85)),
      cell_(Sized(font, 0.78)),
      legend_(Sized(font, 0.88)),
      palette_(palette),
      painter_(painter) {}

const QtMatrixSurface::Writing& QtMatrixSurface::WritingOf(Text kind) const {
  return kind == Text::kCell ? cell_ : kind == Text::kLabel ? label_ : legend_;
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
  painter_->setFont(WritingOf(kind).font);
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
  return WritingOf(kind).metrics.horizontalAdvance(QString::fromStdString(text));
}

double QtMatrixSurface::Height(Text kind) const {
  return WritingOf(kind).metrics.height();
}

}  // namespace headscope::ui
