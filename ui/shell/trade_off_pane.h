// SPDX-License-Identifier: Apache-2.0
// The runs of the head on show as points: what they cost against what they keep. The front joins those that no other
// run beats; a line stands at the target. A click, or Enter, opens a run.
#pragma once

#include <QComboBox>
#include <QWidget>

#include "trade_off.h"
#include "window_state.h"

namespace headscope::ui {

class TradeOffChart : public QWidget {
  Q_OBJECT

 public:
  // `state` outlives the chart.
  explicit TradeOffChart(WindowState* state, QWidget* parent = nullptr);

  void SetAxes(CostAxis cost, QualityAxis quality);
  const std::vector<TradeOffPoint>& points() const { return points_; }
  QPoint PlaceOf(const TradeOffPoint& point) const;  // in widget coordinates
  // What stands in words at the target's line and at the points on the front, as far as it has a place.
  struct Label {
    QString text;
    QRectF place;
  };
  std::vector<Label> LabelsIn(const QRect& area) const;
  // Without a widget's frame, for a file, too.
  void Paint(QPainter& painter, const QRect& area) const;

  QSize sizeHint() const override { return {320, 160}; }
  QSize minimumSizeHint() const override { return {200, 90}; }

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void hideEvent(QHideEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  void Rebuild();
  void Open(size_t point);
  void PointAtRun(std::optional<size_t> point);  // whose mask the map shows; nothing: the panel's
  QRectF Plot(const QRect& area) const;
  QPointF PlaceIn(const QRectF& plot, const TradeOffPoint& point) const;
  std::optional<double> TargetLineIn(const QRectF& plot) const;  // its y; an error has no target
  QPolygonF FrontIn(const QRectF& plot) const;
  QString TargetText() const;
  std::optional<size_t> PointAt(QPointF at) const;
  QString Describe(const TradeOffPoint& point) const;

  WindowState* const state_;
  CostAxis cost_ = CostAxis::kKeptShare;
  QualityAxis quality_ = QualityAxis::kCraFifth;
  std::vector<TradeOffPoint> points_;
  TradeOffAxis x_, y_;
  std::optional<size_t> current_;  // that the keyboard is on
};

class TradeOffPane : public QWidget {
  Q_OBJECT

 public:
  explicit TradeOffPane(WindowState* state, QWidget* parent = nullptr);
};

}  // namespace headscope::ui
