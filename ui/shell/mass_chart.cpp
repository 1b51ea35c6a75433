// SPDX-License-Identifier: Apache-2.0
#include "mass_chart.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <iterator>

#include "chart_looks.h"
#include "mass_curve.h"
#include "method_trial.h"
#include "visible_focus.h"

namespace headscope::ui {
namespace {

using analysis::MassDistribution;

constexpr double kNumbersMargin = 2, kNumbersGap = 8;  // of the numbers above the bars, pixels

// Counts are small whole numbers: 1 must show, so the axis of logarithms begins at one half.
double LogHeight(double count, double most) {
  return count > 0 ? std::log(2 * count) / std::log(2 * most) : 0;
}

}  // namespace

MassChart::MassChart(QWidget* parent) : QWidget(parent) {
  setObjectName(QStringLiteral("massChart"));
  setAccessibleName(tr("Queries by kept mass"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
}

void MassChart::SetMass(const std::optional<MassDistribution>& mass, bool outdated, const QString& why_none) {
  mass_ = mass;
  why_none_ = why_none;
  outdated_ = outdated;
  update();
}

void MassChart::SetTarget(double target) {
  target_ = target;
  update();
}

void MassChart::SetLogarithmic(bool logarithmic) {
  logarithmic_ = logarithmic;
  update();
}

QRectF MassChart::Plot() const {
  const QFontMetricsF metrics(font());
  // Room for the digits of the largest count, the line of marks above and the ticks and the unit below.
  const double left = metrics.horizontalAdvance(QString::number(mass_ ? std::max<int64_t>(mass_->num_rows, 1) : 1)) + 8;
  return QRectF(rect()).adjusted(left, metrics.height() + 4, -metrics.horizontalAdvance(QStringLiteral("0.0")),
                                 -2 * metrics.height() - 6);
}

double MassChart::XOf(double mass) const {
  const QRectF plot = Plot();
  return plot.left() + plot.width() * std::clamp(mass, 0.0, 1.0);
}

double MassChart::MassAt(double x) const {
  const QRectF plot = Plot();
  return (x - plot.left()) / std::max(1.0, plot.width());
}

double MassChart::HeightOf(int64_t count) const {
  const auto most = static_cast<double>(*std::max_element(mass_->bins.begin(), mass_->bins.end()));
  if (most <= 0) return 0;
  const auto rows = static_cast<double>(count);
  return logarithmic_ ? LogHeight(rows, most) : rows / most;
}

void MassChart::SetBrush(const Brush& brush) {
  brush_ = brush;
  update();
}

QPoint MassChart::PlaceOf(double mass) const {
  return QPointF(XOf(mass), Plot().center().y()).toPoint();
}

void MassChart::BrushTo(double mass) {
  constexpr double kBins = MassDistribution::kNumBins;
  const double from = std::clamp(std::min(*brush_begin_, mass), 0.0, 1.0),
               to = std::clamp(std::max(*brush_begin_, mass), 0.0, 1.0);
  brush_ = {std::floor(from * kBins) / kBins, std::ceil(to * kBins) / kBins};
  update();
  Q_EMIT Brushed(brush_->first, brush_->second);
}

void MassChart::EndBrush(const Brush& brush) {
  brush_begin_.reset();
  brush_ = brush;
  update();
  if (brush) {
    Q_EMIT Brushed(brush->first, brush->second);
  } else {
    Q_EMIT Brushed(0, 0);
  }
}

QPoint MassChart::GripOf(double target) const {
  return QPointF(XOf(target), Plot().center().y()).toPoint();
}

bool MassChart::IsOverLine(QPointF at) const {
  return std::abs(at.x() - XOf(target_)) <= kGripPixels;
}

void MassChart::Move(double target, bool fine) {
  const double snapped = SnappedTarget(target, fine);
  if (snapped == target_) return;
  SetTarget(snapped);
  Q_EMIT TargetMoved(snapped);
}

void MassChart::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().base());
  if (!mass_ || mass_->num_rows == 0) {
    painter.setPen(palette().color(QPalette::Disabled, QPalette::Text));
    painter.drawText(rect().adjusted(12, 4, -12, -4), Qt::AlignCenter | Qt::TextWordWrap, why_none_);
    return;
  }
  PaintAxes(painter);
  if (brush_) {
    QColor ground = kBelowColor;
    ground.setAlphaF(0.22f);
    const QRectF plot = Plot();
    painter.fillRect(QRectF(QPointF(XOf(brush_->first), plot.top()), QPointF(XOf(brush_->second), plot.bottom())),
                     ground);
  }
  painter.setOpacity(outdated_ ? 0.55 : 1);
  PaintBars(painter);
  PaintMarks(painter);
  painter.setOpacity(1);
  PaintTarget(painter);
  PaintFocus(&painter, this, rect());
}

void MassChart::PaintAxes(QPainter& painter) const {
  const QRectF plot = Plot();
  const QFontMetricsF metrics(font());
  QColor faint = palette().color(QPalette::Text);
  faint.setAlphaF(0.65f);
  painter.setPen(faint);
  painter.drawLine(plot.bottomLeft(), plot.bottomRight());
  painter.drawLine(plot.topLeft(), plot.bottomLeft());
  for (const double tick : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
    const double x = XOf(tick);
    painter.drawLine(QPointF(x, plot.bottom()), QPointF(x, plot.bottom() + 3));
    painter.drawText(QRectF(x - 20, plot.bottom() + 3, 40, metrics.height()), Qt::AlignCenter, QString::number(tick));
  }
  QString title = tr("kept mass per query (share); height: queries");
  if (metrics.horizontalAdvance(title) > width() - 4) title = tr("kept mass per query");
  painter.drawText(QRectF(0, plot.bottom() + 3 + metrics.height(), width(), metrics.height()), Qt::AlignCenter,
                   metrics.elidedText(title, Qt::ElideRight, width() - 4));
  const double right = plot.left() - 4;
  for (const int64_t value : ShownCounts()) {
    const double y = plot.bottom() - plot.height() * HeightOf(value);
    painter.drawLine(QPointF(plot.left() - 3, y), QPointF(plot.left(), y));
    painter.drawText(QRectF(0, y - metrics.height() / 2, right, metrics.height()), Qt::AlignRight | Qt::AlignVCenter,
                     QString::number(value));
  }
}

std::vector<int64_t> MassChart::ShownCounts() const {
  if (!mass_ || mass_->num_rows == 0) return {};
  const int64_t most = *std::max_element(mass_->bins.begin(), mass_->bins.end());
  std::vector<int64_t> counts = {most};
  if (!logarithmic_) {
    if (most > 1) counts.push_back(most / 2);
    return counts;
  }
  // Decades from the lowest on, where they touch neither the one before nor the number at the top.
  const double height = Plot().height(), line = QFontMetricsF(font()).ascent();
  double free_from = -1;
  for (int64_t decade = 1; decade < most; decade *= 10) {
    const double at = height * HeightOf(decade);
    if (at < free_from || height - at <= line) continue;
    counts.push_back(decade);
    free_from = at + line;
  }
  return counts;
}

void MassChart::PaintBars(QPainter& painter) const {
  const QRectF plot = Plot();
  for (size_t bin = 0; bin < mass_->bins.size(); ++bin) {
    if (mass_->bins[bin] == 0) continue;
    const double begin = static_cast<double>(bin) / MassDistribution::kNumBins;
    const double end = static_cast<double>(bin + 1) / MassDistribution::kNumBins;
    const double height = plot.height() * HeightOf(mass_->bins[bin]);
    painter.fillRect(QRectF(XOf(begin), plot.bottom() - height, std::max(1.0, XOf(end) - XOf(begin)), height),
                     begin < target_ ? kBelowColor : kAboveColor);
  }
}

// All three where they have room; of few queries there is no percentile. In a narrow pane first the digits give way,
// then the mean, which says least of what a method costs; its line stays.
std::vector<MassChart::Mark> MassChart::Marks(const QFontMetricsF& metrics) const {
  const double room = width() - 2 * kNumbersMargin;
  std::vector<Mark> marks;
  for (const auto& [digits, count] : {std::pair{3, 3}, {2, 3}, {3, 2}, {2, 2}, {2, 1}}) {
    marks = {{tr("min %1").arg(mass_->minimum, 0, 'f', digits), mass_->minimum}};
    if (HasPercentile())
      marks.push_back({tr("5th pct. %1").arg(mass_->fifth_percentile, 0, 'f', digits), mass_->fifth_percentile});
    marks.push_back({tr("mean %1").arg(mass_->mean, 0, 'f', digits), mass_->mean});
    if (std::ssize(marks) < count) continue;
    marks.resize(static_cast<size_t>(count));
    double needed = kNumbersGap * (count - 1);
    for (const Mark& mark : marks) needed += metrics.horizontalAdvance(mark.text);
    if (needed <= room) break;
  }
  return marks;
}

void MassChart::PaintMarks(QPainter& painter) const {
  const QRectF plot = Plot();
  const QFontMetricsF metrics(font());
  const std::vector<Mark> marks = Marks(metrics);
  painter.setPen(QPen(palette().color(QPalette::Text), 1, Qt::DotLine));
  std::vector<double> lines = {mass_->minimum, mass_->mean};
  if (HasPercentile()) lines.push_back(mass_->fifth_percentile);
  for (const double mass : lines) painter.drawLine(QPointF(XOf(mass), plot.top()), QPointF(XOf(mass), plot.bottom()));
  // From the right: each text ends where the one after it begins at the latest.
  painter.setPen(palette().color(QPalette::Text));
  std::vector<double> left(marks.size());
  double limit = width() - kNumbersMargin;
  for (size_t i = marks.size(); i-- > 0;) {
    const double text_width = metrics.horizontalAdvance(marks[i].text);
    left[i] = std::min(XOf(marks[i].mass) - text_width / 2, limit - text_width);
    limit = left[i] - kNumbersGap;
  }
  // At the left edge the other way round.
  double from = kNumbersMargin;
  for (size_t i = 0; i < marks.size(); ++i) {
    left[i] = std::max(left[i], from);
    painter.drawText(QPointF(left[i], metrics.ascent() + 1), marks[i].text);
    from = left[i] + metrics.horizontalAdvance(marks[i].text) + kNumbersGap;
  }
}

QStringList MassChart::ShownNumbers() const {
  QStringList texts;
  if (!mass_) return texts;
  for (const Mark& mark : Marks(QFontMetricsF(font()))) texts.append(mark.text);
  return texts;
}

void MassChart::PaintTarget(QPainter& painter) const {
  const QRectF plot = Plot();
  const double x = XOf(target_);
  painter.setPen(QPen(kTargetColor, 2));
  painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
  painter.setBrush(kTargetColor);
  painter.setPen(Qt::NoPen);
  const QPointF grip[] = {{x - 5, plot.top() - 1}, {x + 5, plot.top() - 1}, {x, plot.top() + 7}};
  painter.drawPolygon(grip, 3);
}

bool MassChart::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const double mass = MassAt(help->pos().x());
  if (!mass_ || mass < 0 || mass > 1) {
    QToolTip::hideText();
    return true;
  }
  if (IsOverLine(help->pos())) {
    QToolTip::showText(
        help->globalPos(),
        tr("Target %1: drag it or use the arrow keys (Ctrl: finer, Shift: coarser); double-click for %2.")
            .arg(target_)
            .arg(kDefaultMassTarget),
        this);
    return true;
  }
  const auto bin = std::min<int>(static_cast<int>(mass * MassDistribution::kNumBins), MassDistribution::kNumBins - 1);
  QToolTip::showText(help->globalPos(),
                     tr("%1 to %2: %3 queries. Drag here to mark queries on the map; B marks those below the target, "
                        "Esc none.")
                         .arg(bin / 100.0, 0, 'f', 2)
                         .arg((bin + 1) / 100.0, 0, 'f', 2)
                         .arg(mass_->bins[static_cast<size_t>(bin)]),
                     this);
  return true;
}

void MassChart::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  dragging_ = IsOverLine(event->position());
  if (!dragging_ && mass_) brush_begin_ = MassAt(event->position().x());
}

void MassChart::mouseMoveEvent(QMouseEvent* event) {
  setCursor(dragging_ || IsOverLine(event->position()) ? Qt::SplitHCursor : Qt::ArrowCursor);
  if (dragging_) Move(MassAt(event->position().x()), event->modifiers().testFlag(Qt::ControlModifier));
  if (brush_begin_ && std::abs(XOf(*brush_begin_) - event->position().x()) > 2) BrushTo(MassAt(event->position().x()));
}

void MassChart::mouseReleaseEvent(QMouseEvent* event) {
  // A click without a drag takes the brush away.
  if (brush_begin_) EndBrush(std::abs(XOf(*brush_begin_) - event->position().x()) > 2 ? brush_ : std::nullopt);
  dragging_ = false;
}

void MassChart::mouseDoubleClickEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton) Move(kDefaultMassTarget, true);
}

void MassChart::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_B && mass_) return EndBrush(brush_ ? Brush() : Brush({0.0, target_}));
  if (event->key() == Qt::Key_Escape && brush_) return EndBrush(std::nullopt);
  const int direction = event->key() == Qt::Key_Left ? -1 : event->key() == Qt::Key_Right ? 1 : 0;
  if (direction == 0) {
    QWidget::keyPressEvent(event);
    return;
  }
  const double step =
      TargetStep(event->modifiers().testFlag(Qt::ControlModifier), event->modifiers().testFlag(Qt::ShiftModifier));
  Move(target_ + direction * step, true);
}

}  // namespace headscope::ui
