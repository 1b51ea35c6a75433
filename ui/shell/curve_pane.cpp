// SPDX-License-Identifier: Apache-2.0
#include "curve_pane.h"

#include <QHBoxLayout>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "analysis/types/round_ticks.h"
#include "chart_looks.h"
#include "kept_choices.h"
#include "panes.h"
#include "picture_file.h"
#include "visible_focus.h"

namespace headscope::ui {
namespace {

constexpr double kShareTickWidth = 44;

}  // namespace

CurveChart::CurveChart(WindowState* state, QWidget* parent) : QWidget(parent), state_(state) {
  setObjectName(QStringLiteral("curveChart"));
  setAccessibleName(tr("Kept mass of every query"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  connect(&state->trial, &MethodTrial::Changed, this, &CurveChart::Rebuild);
  connect(&state->focus, &QueryFocus::Changed, this, [this] { update(); });
}

void CurveChart::SetOrder(CurveOrder order) {
  order_ = order;
  Rebuild();
}

void CurveChart::Rebuild() {
  const std::optional<LiveMask>& mask = state_->trial.mask();
  const auto columns = static_cast<size_t>(std::max(1.0, Plot(rect()).width()));
  bins_ = mask ? MakeMassCurve(mask->kept_mass, order_, columns) : std::vector<CurveBin>();
  if (!dragging_) FitAxis();
  update();
}

void CurveChart::FitAxis() {
  double least = state_->trial.target();
  for (const CurveBin& bin : bins_) least = std::min(least, static_cast<double>(bin.least));
  // Masses crowd just below 1, so the axis begins a little under the least of them and the target.
  axis_begin_ = std::max(0.0, std::floor((least - 0.02) * 20) / 20);
}

QRectF CurveChart::Plot(const QRect& area) const {
  const QFontMetricsF metrics(font());
  return QRectF(area).adjusted(metrics.horizontalAdvance(QStringLiteral("0.00")) + 10, metrics.height() + 4, -10,
                               -2 * metrics.height() - 6);
}

double CurveChart::YOf(const QRectF& plot, double mass) const {
  return plot.bottom() - plot.height() * std::clamp((mass - axis_begin_) / (1 - axis_begin_), 0.0, 1.0);
}

double CurveChart::MassAt(double y) const {
  const QRectF plot = Plot(rect());
  return axis_begin_ + (1 - axis_begin_) * (plot.bottom() - y) / std::max(1.0, plot.height());
}

QPoint CurveChart::GripOf(double target) const {
  const QRectF plot = Plot(rect());
  return QPointF(plot.center().x(), YOf(plot, target)).toPoint();
}

bool CurveChart::IsOverLine(QPointF at) const {
  const QRectF plot = Plot(rect());
  return std::abs(at.y() - YOf(plot, state_->trial.target())) <= kGripPixels && at.x() >= plot.left() &&
         at.x() <= plot.right();
}

const CurveBin* CurveChart::BinAt(QPointF at) const {
  const QRectF plot = Plot(rect());
  if (bins_.empty() || !plot.contains(at)) return nullptr;
  const auto bin = static_cast<size_t>((at.x() - plot.left()) / plot.width() * static_cast<double>(bins_.size()));
  return &bins_[std::min(bin, bins_.size() - 1)];
}

int64_t CurveChart::RowOf(int64_t index) const {
  const std::optional<LiveMask>& mask = state_->trial.mask();
  return index + (mask && mask->steps ? mask->steps->first_row : 0);
}

QString CurveChart::NameOf(int64_t row) const {
  const TraceSummary& trace = state_->heads.trace();
  if (row < 0 || row >= static_cast<int64_t>(trace.row_positions.size())) return QString::number(row);
  const auto position = static_cast<size_t>(trace.row_positions[static_cast<size_t>(row)]);
  if (position >= trace.token_text.size()) return QString::number(position);
  return tr("%1 “%2”").arg(position).arg(QString::fromStdString(trace.token_text[position]));
}

void CurveChart::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  Paint(painter, rect());
  PaintFocus(&painter, this, rect());
}

void CurveChart::Paint(QPainter& painter, const QRect& area) const {
  painter.fillRect(area, palette().base());
  if (bins_.empty()) {
    painter.setPen(palette().color(QPalette::PlaceholderText));
    painter.drawText(area.adjusted(12, 4, -12, -4), Qt::AlignCenter | Qt::TextWordWrap, state_->trial.WhyNoMask());
    return;
  }
  const QRectF plot = Plot(area);
  const QFontMetricsF metrics(font());
  QColor faint = palette().color(QPalette::Text);
  faint.setAlphaF(0.65f);
  painter.setPen(faint);
  painter.drawLine(plot.bottomLeft(), plot.bottomRight());
  painter.drawLine(plot.topLeft(), plot.bottomLeft());
  painter.drawText(QRectF(area.left() + 4, area.top() + 1, area.width() - 8, metrics.height()), Qt::AlignLeft,
                   metrics.elidedText(tr("kept mass of a query (CRA, share)"), Qt::ElideRight, area.width() - 8));
  const int most_ticks = std::max(2, static_cast<int>(plot.height() / (1.6 * metrics.height())));
  for (const double value : analysis::RoundTicks(axis_begin_, 1, most_ticks, false)) {
    const double y = YOf(plot, value);
    painter.drawLine(QPointF(plot.left() - 3, y), QPointF(plot.left(), y));
    painter.drawText(QRectF(area.left(), y - metrics.height() / 2, plot.left() - area.left() - 5, metrics.height()),
                     Qt::AlignRight | Qt::AlignVCenter, QString::number(value, 'g', 3));
  }
  PaintXAxis(painter, area, plot);
  painter.setOpacity(state_->trial.mask_pending() ? 0.55 : 1);
  const double width = plot.width() / static_cast<double>(bins_.size()), target = state_->trial.target();
  for (size_t i = 0; i < bins_.size(); ++i) {
    const CurveBin& bin = bins_[i];
    const double x = plot.left() + width * static_cast<double>(i);
    const double top = YOf(plot, static_cast<double>(bin.most)), bottom = YOf(plot, static_cast<double>(bin.least));
    painter.fillRect(QRectF(x, top - 1, std::max(1.0, width), std::max(2.0, bottom - top + 1)),
                     static_cast<double>(bin.least) < target ? kBelowColor : kAboveColor);
  }
  painter.setOpacity(1);
  const double y = YOf(plot, target);
  painter.setPen(QPen(kTargetColor, 2));
  painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
  painter.setBrush(kTargetColor);
  painter.setPen(Qt::NoPen);
  const QPointF grip[] = {{plot.right() + 8, y - 5}, {plot.right() + 8, y + 5}, {plot.right(), y}};
  painter.drawPolygon(grip, 3);
  if (order_ != CurveOrder::kByQuery || !state_->focus.row()) return;
  // The query that the panes are about.
  const int64_t index = *state_->focus.row() - RowOf(0);
  const int64_t count = bins_.back().end;
  if (index < 0 || index >= count) return;
  const double at = plot.left() + plot.width() * (static_cast<double>(index) + 0.5) / static_cast<double>(count);
  painter.setPen(QPen(palette().color(QPalette::Text), 1, Qt::DotLine));
  painter.drawLine(QPointF(at, plot.top()), QPointF(at, plot.bottom()));
}

void CurveChart::PaintXAxis(QPainter& painter, const QRect& area, const QRectF& plot) const {
  const QFontMetricsF metrics(font());
  const auto count = static_cast<double>(bins_.back().end);
  const int most_ticks = std::max(2, static_cast<int>(plot.width() / kShareTickWidth));
  const auto tick = [&](double place, const QString& text) {
    const double x = plot.left() + plot.width() * place;
    painter.drawLine(QPointF(x, plot.bottom()), QPointF(x, plot.bottom() + 3));
    const double left = std::min(x - kShareTickWidth / 2, area.right() - metrics.horizontalAdvance(text));
    painter.drawText(QRectF(left, plot.bottom() + 3, x > left + kShareTickWidth / 2 ? kShareTickWidth : 2 * (x - left),
                            metrics.height()),
                     Qt::AlignHCenter, text);
  };
  QString title;
  if (order_ == CurveOrder::kSorted) {
    title = tr("queries, by kept mass (%)");
    for (const double share : analysis::RoundTicks(0, 100, most_ticks, false))
      tick(share / 100, QString::number(share));
  } else {
    title = tr("query (position in the prompt)");
    const std::vector<int32_t>& positions = state_->heads.trace().row_positions;
    for (const double index : analysis::RoundTicks(0, count, most_ticks, false)) {
      const auto row = static_cast<size_t>(RowOf(static_cast<int64_t>(index)));
      // Between two queries, and behind the last one, there is no position to name.
      if (index != std::floor(index) || row >= positions.size() || index >= count) continue;
      tick((index + 0.5) / count, QString::number(positions[row]));
    }
  }
  painter.drawText(QRectF(area.left(), plot.bottom() + 3 + metrics.height(), area.width(), metrics.height()),
                   Qt::AlignCenter, metrics.elidedText(title, Qt::ElideRight, area.width() - 4));
}

bool CurveChart::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const CurveBin* const bin = BinAt(help->pos());
  if (IsOverLine(help->pos())) {
    QToolTip::showText(help->globalPos(),
                       tr("Target %1: drag it up or down, or use the arrow keys (Ctrl: finer, Shift: coarser), and the "
                          "method's parameters follow; double-click for %2.")
                           .arg(state_->trial.target())
                           .arg(kDefaultMassTarget),
                       this);
  } else if (bin != nullptr) {
    const QString name = NameOf(RowOf(bin->worst));
    const int64_t count = bin->end - bin->begin;
    QToolTip::showText(
        help->globalPos(),
        count == 1 ? tr("Query %1 keeps %2. Click: show it on the map.")
                         .arg(name)
                         .arg(static_cast<double>(bin->least), 0, 'f', 4)
                   : tr("%1 queries, kept mass %2 to %3; query %4 keeps the least. Click to show it on the map.")
                         .arg(count)
                         .arg(static_cast<double>(bin->least), 0, 'f', 4)
                         .arg(static_cast<double>(bin->most), 0, 'f', 4)
                         .arg(name),
        this);
  } else {
    QToolTip::hideText();
  }
  return true;
}

void CurveChart::resizeEvent(QResizeEvent*) {
  Rebuild();
}

void CurveChart::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || bins_.empty()) return;
  dragging_ = IsOverLine(event->position());
  if (dragging_) return;
  const CurveBin* const bin = BinAt(event->position());
  if (bin == nullptr) return;
  const int64_t row = RowOf(bin->worst);
  const std::vector<int32_t>& positions = state_->heads.trace().row_positions;
  if (row < static_cast<int64_t>(positions.size())) state_->focus.GoTo(row, positions[static_cast<size_t>(row)]);
}

void CurveChart::mouseMoveEvent(QMouseEvent* event) {
  setCursor(dragging_ || IsOverLine(event->position()) ? Qt::SplitVCursor : Qt::ArrowCursor);
  if (dragging_)
    state_->queue.Aim(SnappedTarget(MassAt(event->position().y()), event->modifiers().testFlag(Qt::ControlModifier)));
}

void CurveChart::mouseReleaseEvent(QMouseEvent*) {
  if (!dragging_) return;
  dragging_ = false;
  FitAxis();
  update();
}

void CurveChart::mouseDoubleClickEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton && IsOverLine(event->position())) state_->queue.Aim(kDefaultMassTarget);
}

void CurveChart::keyPressEvent(QKeyEvent* event) {
  const int direction = event->key() == Qt::Key_Down ? -1 : event->key() == Qt::Key_Up ? 1 : 0;
  if (direction == 0) {
    QWidget::keyPressEvent(event);
    return;
  }
  const double step =
      TargetStep(event->modifiers().testFlag(Qt::ControlModifier), event->modifiers().testFlag(Qt::ShiftModifier));
  state_->queue.Aim(SnappedTarget(state_->trial.target() + direction * step, true));
}

CurvePane::CurvePane(WindowState* state, QWidget* parent)
    : QWidget(parent), state_(state), chart_(new CurveChart(state)), status_(new QLabel) {
  status_->setObjectName(QStringLiteral("curveStatus"));
  status_->setMinimumWidth(1);
  status_->setWordWrap(true);  // cut, it would say another number
  auto* order = new QComboBox;
  order->setObjectName(QStringLiteral("curveOrder"));
  order->addItem(tr("by position"));
  order->addItem(tr("sorted"));
  order->setToolTip(
      tr("Order of the queries. Sorted by mass, the curve crosses the target where the queries below it end"));
  order->setAccessibleName(tr("Order of the queries"));
  connect(order, &QComboBox::currentIndexChanged, chart_,
          [this](int index) { chart_->SetOrder(index == 0 ? CurveOrder::kByQuery : CurveOrder::kSorted); });
  state->offers.OfferPicture(
      chart_, {.name = QStringLiteral("kept-mass-curve"),
               .title = tr("Mass by query"),
               .write = [chart = chart_](const QString& path, int width) { return WritePicture(chart, path, width); },
               .why_not = [state] { return state->trial.mask() ? QString() : tr("no kept mass is known yet"); }});
  KeepChoices(&state->offers, this, QStringLiteral("kept-mass-curve"), {order});
  auto* top = new QHBoxLayout;
  top->addWidget(status_, 1);
  top->addWidget(order);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 2, 6, 4);
  layout->setSpacing(2);
  layout->addLayout(top);
  layout->addWidget(chart_, 1);
  connect(&state->trial, &MethodTrial::Changed, this, &CurvePane::Refresh);
  connect(&state->trial, &MethodTrial::MethodChanged, this, &CurvePane::Refresh);
  connect(&state->queue, &RunQueue::SearchingChanged, this, &CurvePane::Refresh);
  Refresh();
}

void CurvePane::showEvent(QShowEvent*) {
  state_->trial.SetMaskWanted(this, true);
}
void CurvePane::hideEvent(QHideEvent*) {
  state_->trial.SetMaskWanted(this, false);
}

void CurvePane::Refresh() {
  const RunQueue& queue = state_->queue;
  const std::optional<LiveMask>& mask = state_->trial.mask();
  const double target = state_->trial.target();
  QString text;
  if (queue.searching()) {
    text = tr("target %1: searching …").arg(target);
  } else if (!queue.aim_error().isEmpty()) {
    text = queue.aim_error();
  } else if (mask) {
    text = tr("target %1: %2 % below").arg(target).arg(100 * analysis::ShareBelow(mask->kept_mass, target), 0, 'f', 2);
  }
  status_->setText(text);
  // Why the line moves alone, where it does.
  const kernels::MethodSpec* const method = state_->trial.method();
  QString help = tr("The share of the queries below the target. Drag its line and the method's parameters follow.");
  if (method != nullptr && queue.aim_kind() == RunQueue::AimKind::kNothing)
    help = tr("%1 has no budget to search and no parameter that is a share of mass, so dragging only moves the line")
               .arg(QString::fromStdString(method->name));
  status_->setToolTip(text.isEmpty() ? help : text + u'\n' + help);
}

QWidget* MakeCurvePane(WindowState* state) {
  return new CurvePane(state);
}

}  // namespace headscope::ui
