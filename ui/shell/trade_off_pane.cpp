// SPDX-License-Identifier: Apache-2.0
#include "trade_off_pane.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QLabel>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "analysis/types/round_ticks.h"
#include "chart_looks.h"
#include "kept_choices.h"
#include "label_places.h"
#include "panes.h"
#include "picture_file.h"
#include "visible_focus.h"

namespace headscope::ui {
namespace {

constexpr double kDot = 4.5, kReach = 9, kTickWidth = 60;  // pixels
constexpr QColor kPointColor(86, 140, 200), kFrontColor(40, 150, 90), kDenseColor(140, 140, 150);

QString AxisNumber(double value) {
  return value != 0 && std::abs(value) < 0.01 ? QString::number(value, 'e', 0) : QString::number(value, 'g', 3);
}

}  // namespace

TradeOffChart::TradeOffChart(WindowState* state, QWidget* parent) : QWidget(parent), state_(state) {
  setObjectName(QStringLiteral("tradeOffChart"));
  setAccessibleName(tr("Runs of this head: cost against quality"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  connect(&state->runs, &QAbstractItemModel::modelReset, this, &TradeOffChart::Rebuild);
  connect(&state->heads, &HeadStore::SelectionChanged, this, &TradeOffChart::Rebuild);
  connect(&state->trial, &MethodTrial::Changed, this, [this] {
    y_ = QualityAxisOf(points_, quality_, state_->trial.target());
    update();
  });
  connect(&state->trial, &MethodTrial::MethodChanged, this, &TradeOffChart::Rebuild);
}

void TradeOffChart::SetAxes(CostAxis cost, QualityAxis quality) {
  cost_ = cost;
  quality_ = quality;
  Rebuild();
}

void TradeOffChart::Rebuild() {
  points_.clear();
  current_.reset();
  PointAtRun(std::nullopt);
  if (state_->heads.selected()) {
    points_ =
        MakeTradeOff(state_->runs.runs(), *state_->heads.selected(),
                     state_->trial.is_decode() ? kernels::Phase::kDecode : kernels::Phase::kPrefill, cost_, quality_);
  }
  x_ = CostAxisOf(points_, cost_);
  y_ = QualityAxisOf(points_, quality_, state_->trial.target());
  update();
}

QRectF TradeOffChart::Plot(const QRect& area) const {
  const QFontMetricsF metrics(font());
  return QRectF(area).adjusted(metrics.horizontalAdvance(QStringLiteral("0.0000")) + 8, metrics.height() + 4, -12,
                               -2 * metrics.height() - 6);
}

QPointF TradeOffChart::PlaceIn(const QRectF& plot, const TradeOffPoint& point) const {
  return {plot.left() + plot.width() * x_.Place(point.cost), plot.bottom() - plot.height() * y_.Place(point.quality)};
}

QPoint TradeOffChart::PlaceOf(const TradeOffPoint& point) const {
  return PlaceIn(Plot(rect()), point).toPoint();
}

void TradeOffChart::Paint(QPainter& painter, const QRect& area) const {
  painter.fillRect(area, palette().base());
  const QRectF plot = Plot(area);
  const QFontMetricsF metrics(font());
  painter.setRenderHint(QPainter::Antialiasing);
  if (points_.empty()) {
    painter.setPen(palette().color(QPalette::PlaceholderText));
    painter.drawText(area.adjusted(12, 4, -12, -4), Qt::AlignCenter | Qt::TextWordWrap,
                     tr("No runs of this head yet. Ctrl+R measures the panel's method, Ctrl+Shift+R every method."));
    return;
  }
  QColor faint = palette().color(QPalette::Text);
  faint.setAlphaF(0.65f);
  painter.setPen(faint);
  painter.drawLine(plot.bottomLeft(), plot.bottomRight());
  painter.drawLine(plot.topLeft(), plot.bottomLeft());
  const auto most_ticks = [](double length, double each) { return std::max(2, static_cast<int>(length / each)); };
  for (const double value : analysis::RoundTicks(x_.begin, x_.end, most_ticks(plot.width(), kTickWidth), false)) {
    const double x = plot.left() + plot.width() * x_.Place(value);
    painter.drawLine(QPointF(x, plot.bottom()), QPointF(x, plot.bottom() + 3));
    painter.drawText(QRectF(x - kTickWidth / 2, plot.bottom() + 3, kTickWidth, metrics.height()), Qt::AlignCenter,
                     AxisNumber(value));
  }
  for (const double value :
       analysis::RoundTicks(y_.begin, y_.end, most_ticks(plot.height(), 2 * metrics.height()), false)) {
    const double y = plot.bottom() - plot.height() * y_.Place(value);
    painter.drawLine(QPointF(plot.left() - 3, y), QPointF(plot.left(), y));
    painter.drawText(QRectF(area.left(), y - metrics.height() / 2, plot.left() - area.left() - 5, metrics.height()),
                     Qt::AlignRight | Qt::AlignVCenter, AxisNumber(value));
  }
  painter.drawText(QRectF(area.left(), plot.bottom() + 3 + metrics.height(), area.width(), metrics.height()),
                   Qt::AlignCenter, tr(CostName(cost_)));
  painter.drawText(QRectF(area.left() + 4, area.top() + 1, area.width(), metrics.height()), Qt::AlignLeft,
                   tr(QualityName(quality_)));
  if (const std::optional<double> y = TargetLineIn(plot)) {
    painter.setPen(QPen(kTargetColor, 1, Qt::DashLine));
    painter.drawLine(QPointF(plot.left(), *y), QPointF(plot.right(), *y));
  }
  painter.setPen(QPen(kFrontColor, 1.5));
  painter.setBrush(Qt::NoBrush);
  painter.drawPolyline(FrontIn(plot));
  for (size_t i = 0; i < points_.size(); ++i) {
    const analysis::MethodResult& run = state_->runs.runs()[points_[i].run];
    const QPointF at = PlaceIn(plot, points_[i]);
    painter.setPen(current_ == i ? QPen(palette().color(QPalette::Text), 2) : QPen(Qt::NoPen));
    painter.setBrush(IsDenseRun(run) ? kDenseColor : points_[i].on_front ? kFrontColor : kPointColor);
    painter.drawEllipse(at, kDot, kDot);
  }
  for (const Label& label : LabelsIn(area)) {
    painter.setPen(label.text == TargetText() ? kTargetColor : faint);
    painter.drawText(label.place, Qt::AlignLeft, label.text);
  }
}

std::optional<double> TradeOffChart::TargetLineIn(const QRectF& plot) const {
  if (LessIsBetter(quality_)) return std::nullopt;
  return plot.bottom() - plot.height() * y_.Place(state_->trial.target());
}

QPolygonF TradeOffChart::FrontIn(const QRectF& plot) const {
  QPolygonF front;
  for (const TradeOffPoint& point : Front(points_)) front.append(PlaceIn(plot, point));
  return front;
}

QString TradeOffChart::TargetText() const {
  return tr("target %1").arg(state_->trial.target());
}

std::vector<TradeOffChart::Label> TradeOffChart::LabelsIn(const QRect& area) const {
  if (points_.empty()) return {};
  const QRectF plot = Plot(area);
  const QFontMetricsF metrics(font());
  const auto size_of = [&](const QString& text) {
    return QSizeF(metrics.horizontalAdvance(text) + 1, metrics.height());
  };
  std::vector<QPointF> dots;
  std::vector<QRectF> taken, lines = CoveredBy(FrontIn(plot));
  for (const TradeOffPoint& point : points_) {
    dots.push_back(PlaceIn(plot, point));
    taken.emplace_back(dots.back() - QPointF(kDot, kDot), QSizeF(2 * kDot, 2 * kDot));
  }
  std::vector<Label> labels;
  std::vector<std::vector<QRectF>> wishes;
  if (const std::optional<double> y = TargetLineIn(plot)) {
    labels.push_back({TargetText(), {}});
    wishes.push_back(PlacesAlong(*y, plot.adjusted(3, 0, 0, 0), size_of(TargetText())));
    lines.emplace_back(plot.left(), *y - 0.5, plot.width(), 1);
  }
  for (size_t i = 0; i < points_.size(); ++i) {
    if (!points_[i].on_front) continue;
    const QString name = QString::fromStdString(state_->runs.runs()[points_[i].run].method);
    labels.push_back({name, {}});
    wishes.push_back(PlacesBeside(i, dots, kDot, size_of(name)));
  }
  std::vector<Label> placed;
  const std::vector<std::optional<QRectF>> places = PlaceLabels(plot, taken, lines, wishes);
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i]) placed.push_back({labels[i].text, *places[i]});
  }
  return placed;
}

void TradeOffChart::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  Paint(painter, rect());
  PaintFocus(&painter, this, rect());
}

std::optional<size_t> TradeOffChart::PointAt(QPointF at) const {
  std::optional<size_t> nearest;
  double least = kReach;
  for (size_t i = 0; i < points_.size(); ++i) {
    const QPointF away = PlaceIn(Plot(rect()), points_[i]) - at;
    const double distance = std::hypot(away.x(), away.y());
    if (distance >= least) continue;
    least = distance;
    nearest = i;
  }
  return nearest;
}

QString TradeOffChart::Describe(const TradeOffPoint& point) const {
  const analysis::MethodResult& run = state_->runs.runs()[point.run];
  // The map may not show it: a method that the window lacks, or one that has not answered yet.
  const QString mask = state_->trial.ghost() ? tr("The map shows its mask. ") : QString();
  return tr("%1 %2\n%3: %4, %5: %6%7\n%8Click: open this run")
      .arg(QString::fromStdString(run.method), QString::fromStdString(run.parameters), tr(CostName(cost_)))
      .arg(point.cost, 0, 'g', 4)
      .arg(tr(QualityName(quality_)))
      .arg(point.quality, 0, 'g', 4)
      .arg(point.on_front ? tr("\nOn the front: no other run is cheaper and at least as good.") : QString(), mask);
}

bool TradeOffChart::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  if (const auto point = PointAt(help->pos())) {
    QToolTip::showText(help->globalPos(), Describe(points_[*point]), this);
  } else if (const auto line = TargetLineIn(Plot(rect()));
             line && !points_.empty() && std::abs(*line - help->pos().y()) < kReach / 2) {
    QToolTip::showText(help->globalPos(), tr("The target: %1").arg(state_->trial.target()), this);
  } else {
    QToolTip::hideText();
  }
  return true;
}

void TradeOffChart::Open(size_t point) {
  const analysis::MethodResult run = state_->runs.runs()[points_[point].run];
  PointAtRun(std::nullopt);
  state_->ShowRun(run);  // which makes the points anew: they are the same ones
  if (point < points_.size()) current_ = point;
  update();
}

void TradeOffChart::mousePressEvent(QMouseEvent* event) {
  if (const auto point = PointAt(event->position()); point && event->button() == Qt::LeftButton) Open(*point);
}

void TradeOffChart::mouseMoveEvent(QMouseEvent* event) {
  const std::optional<size_t> point = PointAt(event->position());
  setCursor(point ? Qt::PointingHandCursor : Qt::ArrowCursor);
  PointAtRun(point);
}

void TradeOffChart::leaveEvent(QEvent*) {
  PointAtRun(std::nullopt);
}
void TradeOffChart::hideEvent(QHideEvent*) {
  PointAtRun(std::nullopt);
}

void TradeOffChart::PointAtRun(std::optional<size_t> point) {
  if (!point) return state_->trial.SetGhost(std::nullopt);
  const analysis::MethodResult& run = state_->runs.runs()[points_[*point].run];
  state_->trial.SetGhost(MethodTrial::GhostMethod{run.head, run.method, run.parameters});
}

void TradeOffChart::keyPressEvent(QKeyEvent* event) {
  const int step = event->key() == Qt::Key_Left ? -1 : event->key() == Qt::Key_Right ? 1 : 0;
  if (points_.empty() || (step == 0 && event->key() != Qt::Key_Return && event->key() != Qt::Key_Enter)) {
    QWidget::keyPressEvent(event);
    return;
  }
  if (step == 0) {
    if (current_) Open(*current_);
    return;
  }
  // By ascending cost.
  std::vector<size_t> order(points_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [this](size_t a, size_t b) { return points_[a].cost < points_[b].cost; });
  const auto at = current_ ? std::find(order.begin(), order.end(), *current_) - order.begin() + step : 0;
  current_ = order[static_cast<size_t>(std::clamp<std::ptrdiff_t>(at, 0, std::ssize(order) - 1))];
  setAccessibleDescription(Describe(points_[*current_]));
  PointAtRun(current_);
  update();
}

void TradeOffChart::focusOutEvent(QFocusEvent* event) {
  PointAtRun(std::nullopt);
  QWidget::focusOutEvent(event);
}

TradeOffPane::TradeOffPane(WindowState* state, QWidget* parent) : QWidget(parent) {
  auto* cost = new QComboBox;
  cost->setObjectName(QStringLiteral("tradeOffCost"));
  cost->setAccessibleName(tr("Cost of a run"));
  cost->setToolTip(tr("What a run costs; runs farther right cost more"));
  for (const CostAxis axis : {CostAxis::kKeptShare, CostAxis::kMilliseconds}) cost->addItem(tr(CostName(axis)));
  auto* quality = new QComboBox;
  quality->setObjectName(QStringLiteral("tradeOffQuality"));
  quality->setAccessibleName(tr("Quality of a run"));
  quality->setToolTip(tr("What a run keeps, or how far its output is from dense attention's"));
  for (const QualityAxis axis : {QualityAxis::kCraFifth, QualityAxis::kCraMean, QualityAxis::kRelativeError})
    quality->addItem(tr(QualityName(axis)));
  auto* chart = new TradeOffChart(state);
  state->offers.OfferPicture(
      chart, {.name = QStringLiteral("trade-off"),
              .title = tr("Trade-off"),
              .write = [chart](const QString& path, int width) { return WritePicture(chart, path, width); },
              .why_not = [chart] { return chart->points().empty() ? tr("no runs of this head yet") : QString(); }});
  const auto apply = [chart, cost, quality] {
    chart->SetAxes(static_cast<CostAxis>(cost->currentIndex()), static_cast<QualityAxis>(quality->currentIndex()));
  };
  connect(cost, &QComboBox::currentIndexChanged, chart, apply);
  connect(quality, &QComboBox::currentIndexChanged, chart, apply);
  KeepChoices(&state->offers, this, QStringLiteral("trade-off"), {cost, quality});
  auto* top = new QHBoxLayout;
  top->addWidget(quality, 1);
  top->addWidget(new QLabel(tr("against")));
  top->addWidget(cost, 1);
  for (QComboBox* box : {cost, quality}) box->setMinimumContentsLength(8);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 2, 6, 4);
  layout->setSpacing(2);
  layout->addLayout(top);
  layout->addWidget(chart, 1);
}

QWidget* MakeTradeOffPane(WindowState* state) {
  return new TradeOffPane(state);
}

}  // namespace headscope::ui
