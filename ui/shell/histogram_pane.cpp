// SPDX-License-Identifier: Apache-2.0
#include "histogram_pane.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "panes.h"
#include "picture_file.h"
#include "visible_focus.h"

namespace headscope::ui {
namespace {

constexpr size_t kBins = 40;
constexpr double kTick = 3;  // pixels
constexpr QColor kBar(86, 140, 200), kLeftOut(140, 140, 150, 110), kMeanColor(192, 72, 120), kMedianColor(40, 150, 90);

}  // namespace

HistogramPane::HistogramPane(WindowState* state, QWidget* parent) : QWidget(parent), state_(state) {
  setObjectName(QStringLiteral("histogram"));
  setAccessibleName(tr("Histogram of the matrix's metric over the heads"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  const HeadStore* const heads = &state->heads;
  connect(heads, &HeadStore::MetricChanged, this, [this] {
    range_.reset();
    Outdate();
  });
  connect(heads, &HeadStore::TraceChanged, this, [this] {
    range_.reset();
    Outdate();
  });
  connect(heads, &HeadStore::StatisticsChanged, this, &HistogramPane::Outdate);
  connect(heads, &HeadStore::FilterChanged, this, [this] {
    if (!asks_) range_.reset();  // another one was typed
    update();
  });
}

void HistogramPane::Outdate() {
  outdated_ = true;
  update();
}

void HistogramPane::showEvent(QShowEvent* event) {
  Rebuild();
  QWidget::showEvent(event);
}

QString HistogramPane::WhyNot() const {
  const HeadStore& heads = state_->heads;
  if (!heads.HasTrace()) return tr("No trace is open.");
  if (heads.IsClassMetric())
    return tr("Choose a numeric metric under Colour heads by to see its distribution over the heads.");
  if (heads.IsResultMetric() || heads.shows_differences())
    return tr("Heads cannot be filtered by run results or differences: choose another metric under Colour heads by.");
  return histogram_.counts.empty() ? tr("No head has a value yet.") : QString();
}

QString HistogramPane::WhyNoPicture() {
  Rebuild();  // behind a tab it has waited until it is seen
  if (!state_->heads.HasTrace()) return tr("no trace is open");
  if (WhyNot().isEmpty()) return {};
  return state_->heads.IsClassMetric() || state_->heads.IsResultMetric() || state_->heads.shows_differences()
             ? tr("it has no distribution of what colours the heads")
             : tr("no head has a value yet");
}

void HistogramPane::Rebuild() {
  if (!std::exchange(outdated_, false)) return;
  const HeadStore& heads = state_->heads;
  histogram_ = {};
  if (heads.metric_info() == nullptr || heads.IsResultMetric() || heads.shows_differences()) return;
  std::vector<double> values;
  for (const analysis::HeadId& head : heads.trace().heads) values.push_back(heads.MetricOf(head));
  histogram_ = MakeHistogram(values, kBins);
  if (range_ && std::max(range_->first, range_->second) >= histogram_.counts.size()) range_.reset();
}

QRectF HistogramPane::Plot() const {
  const double line = fontMetrics().height();
  const double counts = fontMetrics().horizontalAdvance(QString::number(histogram_.most)) + kTick + 2;
  return QRectF(rect()).adjusted(std::max(10.0, counts + 4), line + 8, -10, -2 * line - 8);
}

QRectF HistogramPane::BarOf(size_t bin) const {
  const QRectF plot = Plot();
  const double width = plot.width() / static_cast<double>(histogram_.counts.size());
  const double share = BarShare(histogram_.counts[bin], histogram_.most);
  return {plot.left() + width * static_cast<double>(bin), plot.bottom() - plot.height() * share, width,
          plot.height() * share};
}

QPoint HistogramPane::PlaceOf(size_t bin) const {
  return {static_cast<int>(BarOf(bin).center().x()), static_cast<int>(Plot().center().y())};
}

std::optional<size_t> HistogramPane::BinAt(double x) const {
  if (histogram_.counts.empty() || !WhyNot().isEmpty()) return std::nullopt;
  const QRectF plot = Plot();
  const double share = (x - plot.left()) / plot.width();
  const auto last = static_cast<double>(histogram_.counts.size() - 1);
  return static_cast<size_t>(std::clamp(std::floor(share * (last + 1)), 0.0, last));
}

bool HistogramPane::IsChosen(size_t bin) const {
  if (!range_) return true;
  const double middle = (histogram_.EdgeOf(bin) + histogram_.EdgeOf(bin + 1)) / 2;
  return middle >= values_.first && middle < values_.second;
}

void HistogramPane::Choose(const std::optional<Range>& range) {
  range_ = range;
  if (range) {
    const auto [first, last] = std::minmax(range->first, range->second);
    constexpr double kNoEnd = std::numeric_limits<double>::infinity();  // as in FilterOfBins
    values_ = {first > 0 ? histogram_.EdgeOf(first) : -kNoEnd,
               last + 1 < histogram_.counts.size() ? histogram_.EdgeOf(last + 1) : kNoEnd};
  }
  asks_ = true;
  state_->heads.AskForFilter(range ? FilterOfBins(state_->heads.metric(), histogram_,
                                                  std::min(range->first, range->second),
                                                  std::max(range->first, range->second))
                                   : QString());
  asks_ = false;
  update();
}

void HistogramPane::paintEvent(QPaintEvent*) {
  Rebuild();
  QPainter painter(this);
  painter.fillRect(rect(), palette().base());
  if (const QString why_not = WhyNot(); !why_not.isEmpty()) {
    painter.setPen(palette().color(QPalette::PlaceholderText));
    painter.drawText(rect().adjusted(12, 4, -12, -4), Qt::AlignCenter | Qt::TextWordWrap, why_not);
    return;
  }
  const analysis::MetricInfo& metric = *state_->heads.metric_info();
  const QRectF plot = Plot();
  const QFontMetrics metrics = fontMetrics();
  for (size_t bin = 0; bin < histogram_.counts.size(); ++bin) {
    if (histogram_.counts[bin] > 0)
      painter.fillRect(BarOf(bin).adjusted(0.5, 0, -0.5, 0), IsChosen(bin) ? kBar : kLeftOut);
  }
  QColor faint = palette().color(QPalette::Text);
  faint.setAlphaF(0.65f);
  painter.setPen(faint);
  painter.drawLine(plot.bottomLeft(), plot.bottomRight());
  for (const int count : CountTicks(histogram_.most, metrics.height() / std::max(1.0, plot.height()))) {
    const double y = plot.bottom() - plot.height() * BarShare(count, histogram_.most);
    painter.drawLine(QPointF(plot.left() - kTick, y), QPointF(plot.left(), y));
    painter.drawText(QRectF(0, y - metrics.height() / 2.0, plot.left() - kTick - 2, metrics.height()),
                     Qt::AlignRight | Qt::AlignVCenter, QString::number(count));
  }
  const QRectF below(plot.left(), plot.bottom() + 2, plot.width(), metrics.height());
  painter.drawText(below, Qt::AlignLeft, FormatMetric(histogram_.begin));
  painter.drawText(below, Qt::AlignRight, FormatMetric(histogram_.end));
  const QString unit = metric.unit.empty() ? QString() : tr(" [%1]").arg(QString::fromStdString(metric.unit));
  const QString heights = tr("height: heads, log scale");
  const QString title = QString::fromStdString(metric.title) + unit;
  const bool fits = metrics.horizontalAdvance(tr("%1; %2").arg(title, heights)) <= below.width();
  painter.drawText(below.translated(0, metrics.height()), Qt::AlignHCenter,
                   metrics.elidedText(fits ? tr("%1; %2").arg(title, heights) : title, Qt::ElideRight,
                                      static_cast<int>(below.width())));
  double right = plot.left();
  const auto mark = [&](double value, const QString& text, const QColor& color) {
    const double width = histogram_.end - histogram_.begin;
    const double x = plot.left() + (width > 0 ? (value - histogram_.begin) / width : 0.5) * plot.width();
    painter.setPen(QPen(color, 1, Qt::DashLine));
    painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
    painter.setPen(color);
    painter.drawText(QPointF(right, plot.top() - 4), text);
    right += metrics.horizontalAdvance(text + QStringLiteral("    "));
  };
  mark(histogram_.mean, tr("mean %1").arg(FormatMetric(histogram_.mean)), kMeanColor);
  mark(histogram_.median, tr("median %1").arg(FormatMetric(histogram_.median)), kMedianColor);
  if (range_) {
    const HeadStore& store = state_->heads;
    const auto heads = std::count_if(store.trace().heads.begin(), store.trace().heads.end(),
                                     [&store](analysis::HeadId head) { return store.Passes(head); });
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(QRectF(plot.left(), 2, plot.width(), metrics.height()), Qt::AlignRight,
                     heads == 1 ? tr("1 head") : tr("%1 heads").arg(heads));
  }
  PaintFocus(&painter, this, rect());
}

bool HistogramPane::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  if (const auto bin = BinAt(help->pos().x())) {
    QToolTip::showText(help->globalPos(),
                       tr("%1 to %2: %3 of the heads\nDrag: filter the heads by a range; double-click: all heads")
                           .arg(FormatMetric(histogram_.EdgeOf(*bin)), FormatMetric(histogram_.EdgeOf(*bin + 1)))
                           .arg(histogram_.counts[*bin]),
                       this);
  } else {
    QToolTip::hideText();
  }
  return true;
}

void HistogramPane::mousePressEvent(QMouseEvent* event) {
  const auto bin = BinAt(event->position().x());
  if (event->button() != Qt::LeftButton || !bin) return;
  dragging_ = true;
  Choose(Range{*bin, *bin});
}

void HistogramPane::mouseMoveEvent(QMouseEvent* event) {
  const auto bin = BinAt(event->position().x());
  if (dragging_ && bin && range_ && range_->second != *bin) Choose(Range{range_->first, *bin});
}

void HistogramPane::mouseReleaseEvent(QMouseEvent*) {
  dragging_ = false;
}

void HistogramPane::mouseDoubleClickEvent(QMouseEvent*) {
  dragging_ = false;
  Choose(std::nullopt);
}

void HistogramPane::keyPressEvent(QKeyEvent* event) {
  const int step = event->key() == Qt::Key_Left ? -1 : event->key() == Qt::Key_Right ? 1 : 0;
  if (event->key() == Qt::Key_Escape && range_) return Choose(std::nullopt);
  if (step == 0 || histogram_.counts.empty() || !WhyNot().isEmpty()) return QWidget::keyPressEvent(event);
  const auto last = static_cast<std::ptrdiff_t>(histogram_.counts.size()) - 1;
  const std::ptrdiff_t at = range_ ? static_cast<std::ptrdiff_t>(range_->second) + step : step > 0 ? 0 : last;
  const auto bin = static_cast<size_t>(std::clamp<std::ptrdiff_t>(at, 0, last));
  Choose(Range{range_ && event->modifiers().testFlag(Qt::ShiftModifier) ? range_->first : bin, bin});
}

QWidget* MakeHistogramPane(WindowState* state) {
  auto* pane = new HistogramPane(state);
  state->offers.OfferPicture(
      pane, {.name = QStringLiteral("histogram"),
             .title = QObject::tr("Histogram"),
             .write = [pane](const QString& path, int width) { return WritePicture(pane, path, width); },
             .why_not = [pane] { return pane->WhyNoPicture(); }});
  return pane;
}

}  // namespace headscope::ui
