// SPDX-License-Identifier: Apache-2.0
// The kept mass of every query as a curve, with the target as a line that is dragged: the method's parameters follow
// it, and mask and curve follow them.
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QWidget>
#include <optional>
#include <vector>

#include "mass_curve.h"
#include "window_state.h"

namespace headscope::ui {

class CurveChart : public QWidget {
  Q_OBJECT

 public:
  // `state` outlives the chart.
  explicit CurveChart(WindowState* state, QWidget* parent = nullptr);

  void SetOrder(CurveOrder order);
  // Where the target's line can be gripped, in widget coordinates.
  QPoint GripOf(double target) const;
  // Of the curve's bin under a pixel; null off the plot or without a mask.
  const CurveBin* BinAt(QPointF at) const;

  QSize sizeHint() const override { return {300, 130}; }
  QSize minimumSizeHint() const override { return {180, 90}; }

 protected:
  bool event(QEvent* event) override;  // tooltips
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void Rebuild();
  void FitAxis();
  QRectF Plot(const QRect& area) const;
  double YOf(const QRectF& plot, double mass) const;
  double MassAt(double y) const;
  bool IsOverLine(QPointF at) const;
  // The recorded row of an index into the masses: of a decode method the first one is its first step.
  int64_t RowOf(int64_t index) const;
  QString NameOf(int64_t row) const;  // its query's position and token
  void Paint(QPainter& painter, const QRect& area) const;
  void PaintXAxis(QPainter& painter, const QRect& area, const QRectF& plot) const;

  WindowState* const state_;
  CurveOrder order_ = CurveOrder::kByQuery;
  std::vector<CurveBin> bins_;
  double axis_begin_ = 0;  // of the masses; it ends at 1
  bool dragging_ = false;  // the axis stays as it is
};

class CurvePane : public QWidget {
  Q_OBJECT

 public:
  explicit CurvePane(WindowState* state, QWidget* parent = nullptr);

 protected:
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  void Refresh();

  WindowState* const state_;
  CurveChart* const chart_;
  QLabel* const status_;
};

}  // namespace headscope::ui
