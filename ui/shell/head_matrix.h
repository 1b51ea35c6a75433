// SPDX-License-Identifier: Apache-2.0
// The first thing on the screen: one cell a head, layers down, query heads across, coloured by a metric.
#pragma once

#include <QWidget>
#include <optional>

#include "analysis/types/matrix_painter.h"
#include "head_store.h"

namespace headscope::ui {

inline bool IsArrow(int key) {
  return key >= Qt::Key_Left && key <= Qt::Key_Down;
}
// The recorded head that an arrow key goes to; nothing at the ends and for other keys.
std::optional<analysis::HeadId> HeadBeside(const analysis::MatrixLayout& layout, std::optional<analysis::HeadId> head,
                                           int key);

class HeadMatrix : public QWidget {
  Q_OBJECT

 public:
  explicit HeadMatrix(HeadStore* store, QWidget* parent = nullptr);

  // Centre of a head's cell in widget coordinates; nothing when the trace does not hold it.
  std::optional<QPoint> CellCentre(analysis::HeadId head) const;
  // What the cell is filled with; hatched cells have no colour.
  std::optional<QColor> CellColor(analysis::HeadId head) const;

  // Rich text: what the colours show first, then the class and a few numbers more.
  QString ToolTip(analysis::HeadId head) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 Q_SIGNALS:
  void HeadActivated(headscope::analysis::HeadId head);
  void HeadMenuWanted(headscope::analysis::HeadId head, QPoint global);

 protected:
  bool event(QEvent* event) override;  // tooltips
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;

 private:
  void Rebuild();
  void Refit();
  analysis::MatrixPicture Picture() const;
  QString ShownMetric(analysis::HeadId head, const analysis::MetricInfo& metric) const;
  // What the window alone paints over a cell.
  void PaintOverCell(QPainter& painter, analysis::HeadId head, const analysis::MatrixCell& cell,
                     const QRectF& rect) const;

  HeadStore* const store_;
  analysis::MatrixLayout layout_;
  std::optional<analysis::MatrixLayout::Cell> hovered_;
};

}  // namespace headscope::ui
