// SPDX-License-Identifier: Apache-2.0
// What the matrix is painted on in the window: a QPainter with the widget's font and colours.
#pragma once

#include <QColor>
#include <QFont>
#include <QFontMetricsF>
#include <QPainter>
#include <QPalette>
#include <QRectF>
#include <functional>
#include <string>

#include "analysis/types/matrix_painter.h"

namespace headscope::ui {

inline QColor ToQt(analysis::Rgb color) {
  return {color.red, color.green, color.blue};
}
inline QRectF ToQt(const analysis::Box& box) {
  return {box.x, box.y, box.width, box.height};
}

class QtMatrixSurface : public analysis::MatrixSurface {
 public:
  // Without a painter it measures text and paints nothing.
  QtMatrixSurface(const QFont& font, const QPalette& palette, QPainter* painter = nullptr);

  void Fill(const analysis::Box& box, analysis::Rgb color) override;
  void Hatch(const analysis::Box& box) override;
  void Line(double x0, double y0, double x1, double y1) override;
  void Write(Text kind, double x, double y, Anchor anchor, const std::string& text,
             std::optional<analysis::Rgb> ink) override;
  void WriteUpwards(double x, double y, const std::string& text) override;
  double Width(Text kind, const std::string& text) const override;
  double Height(Text kind) const override;
  void EndCell(analysis::HeadId head, const analysis::Box& box) override { over_cell_(head, box); }

  // What the widget paints over each cell.
  void SetOverCell(std::function<void(analysis::HeadId, const analysis::Box&)> over_cell) {
    over_cell_ = std::move(over_cell);
  }

 private:
  struct Writing {  // of a kind of text
    explicit Writing(const QFont& sized) : font(sized), metrics(sized) {}
    QFont font;
    QFontMetricsF metrics;
  };
  const Writing& WritingOf(Text kind) const;
  QColor InkOf(Text kind) const;

  const Writing label_, cell_, legend_;
  const QPalette palette_;
  QPainter* const painter_;
  std::function<void(analysis::HeadId, const analysis::Box&)> over_cell_ = [](analysis::HeadId, const analysis::Box&) {
  };
};

}  // namespace headscope::ui
