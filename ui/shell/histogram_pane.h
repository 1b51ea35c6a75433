// SPDX-License-Identifier: Apache-2.0
// The matrix' metric as a histogram over the heads. A range of it that is dragged becomes the filter of the heads.
#pragma once

#include <QWidget>
#include <optional>
#include <utility>

#include "metric_histogram.h"
#include "window_state.h"

namespace headscope::ui {

class HistogramPane : public QWidget {
  Q_OBJECT

 public:
  explicit HistogramPane(WindowState* state, QWidget* parent = nullptr);

  const MetricHistogram& histogram() const { return histogram_; }
  // Whether the bar is in the colour of the heads that are shown.
  bool IsChosen(size_t bin) const;
  // Of a bin's middle, in widget coordinates.
  QPoint PlaceOf(size_t bin) const;
  // Why there is no histogram; empty: there is one.
  QString WhyNot() const;
  QString WhyNoPicture();  // the same in the words of a command

  QSize sizeHint() const override { return {380, 220}; }
  QSize minimumSizeHint() const override { return {200, 90}; }

 protected:
  bool event(QEvent* event) override;  // tooltips
  void paintEvent(QPaintEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  using Range = std::pair<size_t, size_t>;  // where it was begun, and its other end

  void Outdate();  // made anew when it is seen
  void Rebuild();
  void Choose(const std::optional<Range>& range);
  QRectF Plot() const;
  QRectF BarOf(size_t bin) const;
  std::optional<size_t> BinAt(double x) const;

  WindowState* const state_;
  MetricHistogram histogram_;
  bool outdated_ = true, dragging_ = false;
  bool asks_ = false;  // the filter that changes is the range's
  std::optional<Range> range_;
  // The values that the range was chosen for, end not included: they stay the filter's while exact numbers that replace
  // estimates move the bins.
  std::pair<double, double> values_;
};

}  // namespace headscope::ui
