// SPDX-License-Identifier: Apache-2.0
// How the kept mass is spread over the query rows, with a target line that mouse and keys move.
#pragma once

#include <QFontMetricsF>
#include <QStringList>
#include <QWidget>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/types/mass_distribution.h"

namespace headscope::ui {

class MassChart : public QWidget {
  Q_OBJECT

 public:
  explicit MassChart(QWidget* parent = nullptr);

  // Nothing: no mask is known, for `why_none`. `outdated`: of parameters that have changed since; drawn faintly.
  void SetMass(const std::optional<analysis::MassDistribution>& mass, bool outdated, const QString& why_none = {});
  void SetTarget(double target);
  void SetLogarithmic(bool logarithmic);  // the axis of counts

  // Kept masses that are marked; nothing: none.
  using Brush = std::optional<std::pair<double, double>>;
  void SetBrush(const Brush& brush);

  // Where a mass lies, in widget coordinates.
  QPoint PlaceOf(double mass) const;
  // Where a target's line can be gripped, in widget coordinates.
  QPoint GripOf(double target) const;

  // The numbers above the bars, as many and as exact as there is room for.
  QStringList ShownNumbers() const;
  // The counts of queries beside the bars, none of which touches another.
  std::vector<int64_t> ShownCounts() const;

  QSize sizeHint() const override { return {300, 130}; }
  QSize minimumSizeHint() const override { return {200, 90}; }

 Q_SIGNALS:
  void TargetMoved(double target);
  // Begin and end, on the bins' edges; no less than the begin: the brush is taken away. A brush to the right end holds
  // all masses from its begin on.
  void Brushed(double begin, double end);

 protected:
  bool event(QEvent* event) override;  // tooltips
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  struct Mark {
    QString text;
    double mass = 0;
  };
  std::vector<Mark> Marks(const QFontMetricsF& metrics) const;
  QRectF Plot() const;
  double XOf(double mass) const;
  double MassAt(double x) const;
  bool HasPercentile() const { return mass_->num_rows >= analysis::kLeastQuantileRows; }
  double HeightOf(int64_t count) const;  // share of the plot's height
  bool IsOverLine(QPointF at) const;
  void Move(double target, bool fine);
  void PaintAxes(QPainter& painter) const;
  void PaintBars(QPainter& painter) const;
  void PaintMarks(QPainter& painter) const;
  void PaintTarget(QPainter& painter) const;
  void BrushTo(double mass);
  void EndBrush(const Brush& brush);

  std::optional<analysis::MassDistribution> mass_;
  QString why_none_;
  bool outdated_ = false, logarithmic_ = true, dragging_ = false;
  double target_ = 0;
  Brush brush_;
  std::optional<double> brush_begin_;  // while one is dragged out
};

}  // namespace headscope::ui
