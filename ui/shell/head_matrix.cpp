// SPDX-License-Identifier: Apache-2.0
#include "head_matrix.h"

#include <QEvent>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollArea>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "metric_colors.h"
#include "panes.h"

namespace headscope::ui {
namespace {

constexpr double kMargin = 10, kLeftLabels = 30, kTopLabels = 38, kLegendGap = 14, kBarHeight = 10;

QFont Small(const QFont& font, double share) {
  QFont small = font;
  small.setPointSizeF(font.pointSizeF() * share);
  return small;
}

}  // namespace

HeadMatrix::HeadMatrix(HeadStore* store, QWidget* parent) : QWidget(parent), store_(store) {
  setObjectName(QStringLiteral("headMatrix"));
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setAccessibleName(tr("Layer by head matrix"));
  connect(store, &HeadStore::TraceChanged, this, &HeadMatrix::Rebuild);
  connect(store, &HeadStore::MetricChanged, this, &HeadMatrix::Refit);
  connect(store, &HeadStore::SelectionChanged, this, [this] { update(); });
  connect(store, &HeadStore::StatisticsChanged, this, [this] { update(); });
  connect(store, &HeadStore::FilterChanged, this, [this] { update(); });
}

void HeadMatrix::Rebuild() {
  layout_ = MatrixLayout(store_->trace());
  hovered_.reset();
  updateGeometry();
  Refit();
}

void HeadMatrix::Refit() {
  layout_.Fit(
      QRectF(rect()).adjusted(kMargin + kLeftLabels, kMargin + kTopLabels, -kMargin, -kMargin - LegendHeight()));
  update();
}

double HeadMatrix::LegendHeight() const {
  const double line = QFontMetricsF(Small(font(), 0.88)).height();
  return kLegendGap + (store_->IsClassMetric() ? 3 * (line + 3) : kBarHeight + 2 * line + 8);
}

QSize HeadMatrix::minimumSizeHint() const {
  const QSizeF area = layout_.MinimumArea();
  return {static_cast<int>(std::ceil(std::max(240.0, area.width() + kLeftLabels + 2 * kMargin))),
          static_cast<int>(std::ceil(std::max(120.0, area.height() + kTopLabels + 2 * kMargin + LegendHeight())))};
}

QSize HeadMatrix::sizeHint() const {
  return minimumSizeHint().expandedTo({400, 360});
}

std::optional<QPoint> HeadMatrix::CellCentre(analysis::HeadId head) const {
  const auto cell = layout_.CellOf(head);
  if (!cell) return std::nullopt;
  return layout_.CellRect(*cell).center().toPoint();
}

std::optional<QColor> HeadMatrix::CellColor(analysis::HeadId head) const {
  const analysis::HeadStatistics* statistics = store_->Find(head);
  if (statistics == nullptr) return std::nullopt;
  if (store_->IsClassMetric()) return ClassColor(statistics->head_class);
  const auto [least, most] = store_->MetricRange();
  const QColor color =
      MetricColor(analysis::MetricValue(*statistics, store_->metric()), least, most, store_->metric_info()->diverging);
  return color.isValid() ? std::optional(color) : std::nullopt;
}

void HeadMatrix::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().base());
  if (layout_.num_rows() == 0) {
    painter.setPen(palette().color(QPalette::Disabled, QPalette::Text));
    painter.drawText(rect().adjusted(16, 16, -16, -16), Qt::AlignCenter | Qt::TextWordWrap,
                     tr("Open a trace, or capture one from a model."));
    return;
  }
  PaintLabels(painter);
  QColor veil = palette().color(QPalette::Base);  // over what the filter of the table leaves out
  veil.setAlphaF(0.8f);
  for (int row = 0; row < layout_.num_rows(); ++row) {
    for (int column = 0; column < layout_.num_columns(); ++column) {
      const MatrixLayout::Cell cell{row, column};
      PaintCell(painter, cell);
      const auto head = layout_.HeadOf(cell);
      if (head && !store_->Passes(*head)) painter.fillRect(layout_.CellRect(cell), veil);
    }
  }
  const auto outline = [&](std::optional<MatrixLayout::Cell> cell, double width) {
    if (!cell) return;
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(palette().color(QPalette::Text), width));
    painter.drawRect(layout_.CellRect(*cell).adjusted(-0.5, -0.5, 0.5, 0.5));
  };
  outline(hovered_, 1);
  if (store_->selected()) outline(layout_.CellOf(*store_->selected()), 2.5);
  PaintLegend(painter);
}

void HeadMatrix::PaintLabels(QPainter& painter) const {
  painter.setFont(Small(font(), 0.85));
  const QFontMetricsF metrics(painter.font());
  const QRectF bounds = layout_.Bounds();
  QColor faint = palette().color(QPalette::Text);
  faint.setAlphaF(0.65f);
  painter.setPen(faint);
  // Labels that would touch are thinned out.
  const auto stride = [](double needed, double pitch) {
    return std::max(1, static_cast<int>(std::ceil(needed / pitch)));
  };
  const QRectF first = layout_.CellRect({0, 0});
  const int row_stride = stride(metrics.height() * 0.9, first.height() + MatrixLayout::kGap);
  for (int row = 0; row < layout_.num_rows(); row += row_stride) {
    const QRectF cell = layout_.CellRect({row, 0});
    painter.drawText(QRectF(0, cell.center().y() - 10, bounds.left() - 6, 20), Qt::AlignRight | Qt::AlignVCenter,
                     QString::number(layout_.layers()[static_cast<size_t>(row)]));
  }
  const double widest = metrics.horizontalAdvance(QString::number(layout_.heads().back())) + 4;
  const int column_stride = stride(widest, first.width() + MatrixLayout::kGap);
  for (int column = 0; column < layout_.num_columns(); column += column_stride) {
    const QRectF cell = layout_.CellRect({0, column});
    painter.drawText(QRectF(cell.center().x() - 20, bounds.top() - metrics.height() - 3, 40, metrics.height()),
                     Qt::AlignCenter, QString::number(layout_.heads()[static_cast<size_t>(column)]));
  }
  // A bracket over the query heads that share a KV head.
  const double y = bounds.top() - metrics.height() - 6;
  for (const MatrixLayout::Group& group : layout_.groups()) {
    const double left = layout_.CellRect({0, group.first}).left(), right = layout_.CellRect({0, group.last}).right();
    painter.drawLine(QPointF(left, y), QPointF(right, y));
    const QString label =
        right - left > metrics.horizontalAdvance(tr("KV %1").arg(group.kv_head))   ? tr("KV %1").arg(group.kv_head)
        : right - left > metrics.horizontalAdvance(QString::number(group.kv_head)) ? QString::number(group.kv_head)
                                                                                   : QString();
    painter.drawText(QRectF(left, y - metrics.height() - 1, right - left, metrics.height()), Qt::AlignCenter, label);
  }
  painter.save();
  painter.translate(kMargin - 2, bounds.center().y());
  painter.rotate(-90);
  painter.drawText(QRectF(-60, -8, 120, 16), Qt::AlignCenter, tr("layer"));
  painter.restore();
  painter.drawText(QRectF(0, bounds.top() - metrics.height() - 3, bounds.left() - 6, metrics.height()), Qt::AlignRight,
                   tr("head"));
}

void HeadMatrix::PaintCell(QPainter& painter, MatrixLayout::Cell cell) const {
  const QRectF rect = layout_.CellRect(cell);
  const auto head = layout_.HeadOf(cell);
  if (!head) return;
  const std::optional<QColor> color = CellColor(*head);
  if (!color) {
    QColor hatch = palette().color(QPalette::Text);
    hatch.setAlphaF(0.28f);
    painter.fillRect(rect, palette().alternateBase());
    painter.fillRect(rect, QBrush(hatch, Qt::BDiagPattern));
    return;
  }
  painter.fillRect(rect, *color);
  const analysis::HeadStatistics& statistics = *store_->Find(*head);
  const QColor ink = TextOn(*color);
  painter.setPen(ink);
  if (!store_->IsClassMetric()) {
    painter.setFont(Small(font(), 0.78));
    const QString text = QString::number(analysis::MetricValue(statistics, store_->metric()), 'f', 2);
    const QFontMetricsF metrics(painter.font());
    if (metrics.horizontalAdvance(text) + 6 <= rect.width() && metrics.height() <= rect.height())
      painter.drawText(rect, Qt::AlignCenter, text);
  }
  if (!store_->IsExact(statistics)) {
    // A corner: so far only a quick look at some rows.
    painter.setPen(Qt::NoPen);
    painter.setBrush(ink);
    const double size = std::min(5.0, rect.height() / 3);
    const QPointF corner[] = {rect.topRight(), rect.topRight() - QPointF(size, 0), rect.topRight() + QPointF(0, size)};
    painter.drawPolygon(corner, 3);
  }
}

void HeadMatrix::PaintLegend(QPainter& painter) const {
  const QRectF bounds = layout_.Bounds();
  const QRectF area(bounds.left(), bounds.bottom() + kLegendGap, std::max(bounds.width(), 190.0),
                    LegendHeight() - kLegendGap);
  painter.setFont(Small(font(), 0.88));
  if (store_->IsClassMetric()) {
    PaintClassLegend(painter, area);
  } else {
    PaintColorBar(painter, area);
  }
}

void HeadMatrix::PaintColorBar(QPainter& painter, const QRectF& area) const {
  const QFontMetricsF metrics(painter.font());
  const analysis::MetricInfo& info = *store_->metric_info();
  auto [least, most] = store_->MetricRange();
  if (info.diverging) {
    most = std::max(std::abs(least), std::abs(most));
    least = -most;
  }
  painter.setPen(palette().color(QPalette::Text));
  const QString unit = info.unit.empty() ? QString() : QStringLiteral(" [%1]").arg(QString::fromStdString(info.unit));
  painter.drawText(QRectF(area.left(), area.top(), area.width(), metrics.height()), Qt::AlignLeft,
                   QString::fromStdString(info.title) + unit);
  const QRectF bar(area.left(), area.top() + metrics.height() + 3, area.width(), kBarHeight);
  for (int x = 0; x < static_cast<int>(bar.width()); ++x) {
    const double value = least + (most - least) * x / std::max(1.0, bar.width() - 1);
    painter.fillRect(QRectF(bar.left() + x, bar.top(), 1, bar.height()),
                     MetricColor(value, least, most, info.diverging));
  }
  const QRectF labels(bar.left(), bar.bottom() + 2, bar.width(), metrics.height());
  painter.drawText(labels, Qt::AlignLeft, FormatMetric(least));
  painter.drawText(labels, Qt::AlignHCenter, FormatMetric((least + most) / 2));
  painter.drawText(labels, Qt::AlignRight, FormatMetric(most));
}

void HeadMatrix::PaintClassLegend(QPainter& painter, const QRectF& area) const {
  using analysis::HeadClass;
  const QFontMetricsF metrics(painter.font());
  double x = area.left(), y = area.top();
  for (const HeadClass head_class : {HeadClass::kSinkLocal, HeadClass::kVerticalSlash, HeadClass::kBlock,
                                     HeadClass::kDiffuse, HeadClass::kRetrieval}) {
    const QString name = QString::fromLatin1(analysis::HeadClassName(head_class));
    const double entry_width = 18 + metrics.horizontalAdvance(name) + 12;
    if (x > area.left() && x + entry_width - 12 > width() - kMargin) {
      x = area.left();
      y += metrics.height() + 3;
    }
    painter.fillRect(QRectF(x, y + metrics.height() / 2 - 6, 12, 12), ClassColor(head_class));
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(QPointF(x + 18, y + metrics.ascent()), name);
    x += entry_width;
  }
}

QString HeadMatrix::ToolTip(analysis::HeadId head) const {
  const TraceSummary& trace = store_->trace();
  const auto at = std::lower_bound(trace.heads.begin(), trace.heads.end(), head) - trace.heads.begin();
  QString text = tr("<b>Layer %1, head %2</b> (KV head %3)")
                     .arg(head.layer)
                     .arg(head.head)
                     .arg(trace.kv_head_of_head[static_cast<size_t>(at)]);
  const analysis::HeadStatistics* statistics = store_->Find(head);
  if (statistics == nullptr) return text + tr("<br>not computed yet");
  if (trace.first_token > 0) {
    text += tr("<br>%1 % of its attention lies outside the cut, on tokens before it")
                .arg(100 * statistics->outside_mass, 0, 'f', 1);
  }
  text += QStringLiteral("<br>%1: %2")
              .arg(QString::fromLatin1(analysis::HeadClassName(statistics->head_class)),
                   QString::fromStdString(statistics->class_reason).toHtmlEscaped());
  if (!store_->IsExact(*statistics))
    text += tr("<br><i>quick look at %1 of %2 rows</i>").arg(statistics->num_rows).arg(trace.num_rows);
  text += QStringLiteral("<table cellspacing='0' cellpadding='1'>");
  // Two metrics a line: there are some thirty of them.
  const std::vector<analysis::MetricInfo>& metrics = analysis::Metrics();
  const size_t lines = (metrics.size() + 1) / 2;
  const auto cell = [&](size_t i) {
    if (i >= metrics.size()) return QString();
    const QString value = FormatMetric(analysis::MetricValue(*statistics, metrics[i].name));
    const QString title = QString::fromStdString(metrics[i].title).toHtmlEscaped();
    const QString unit = QString::fromStdString(metrics[i].unit).toHtmlEscaped();
    return QStringLiteral("<td>%1&nbsp;</td><td align='right'>%2</td><td>%3&nbsp;&nbsp;</td>").arg(title, value, unit);
  };
  for (size_t i = 0; i < lines; ++i) text += QStringLiteral("<tr>%1%2</tr>").arg(cell(i), cell(i + lines));
  return text + QStringLiteral("</table>");
}

bool HeadMatrix::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto cell = layout_.CellAt(help->pos());
  const auto head = cell ? layout_.HeadOf(*cell) : std::nullopt;
  if (head) {
    QToolTip::showText(help->globalPos(), ToolTip(*head), this, layout_.CellRect(*cell).toAlignedRect());
  } else {
    QToolTip::hideText();
  }
  return true;
}

void HeadMatrix::resizeEvent(QResizeEvent*) {
  Refit();
}

void HeadMatrix::mousePressEvent(QMouseEvent* event) {
  const auto cell = layout_.CellAt(event->position());
  if (event->button() != Qt::LeftButton || !cell) return;
  if (const auto head = layout_.HeadOf(*cell)) Q_EMIT HeadActivated(*head);
}

void HeadMatrix::mouseMoveEvent(QMouseEvent* event) {
  const auto cell = layout_.CellAt(event->position());
  if (cell == hovered_) return;
  hovered_ = cell;
  setCursor(cell && layout_.HeadOf(*cell) ? Qt::PointingHandCursor : Qt::ArrowCursor);
  update();
}

void HeadMatrix::leaveEvent(QEvent*) {
  hovered_.reset();
  update();
}

void HeadMatrix::keyPressEvent(QKeyEvent* event) {
  int down = 0, right = 0;
  switch (event->key()) {
    case Qt::Key_Up:
      down = -1;
      break;
    case Qt::Key_Down:
      down = 1;
      break;
    case Qt::Key_Left:
      right = -1;
      break;
    case Qt::Key_Right:
      right = 1;
      break;
    default:
      QWidget::keyPressEvent(event);
      return;
  }
  if (layout_.num_rows() == 0) return;
  const auto from = store_->selected() ? layout_.CellOf(*store_->selected()) : std::nullopt;
  // Without a selection the first key chooses the first cell; holes of a partial recording are stepped over.
  MatrixLayout::Cell cell = from.value_or(MatrixLayout::Cell{-down, -right});
  for (;;) {
    cell.row += down;
    cell.column += right;
    if (cell.row < 0 || cell.row >= layout_.num_rows() || cell.column < 0 || cell.column >= layout_.num_columns())
      return;
    if (const auto head = layout_.HeadOf(cell)) {
      Q_EMIT HeadActivated(*head);
      return;
    }
  }
}

QWidget* MakeMatrixPane(WindowState* state) {
  auto* scroll = new QScrollArea;
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setWidgetResizable(true);
  scroll->setFocusPolicy(Qt::NoFocus);
  auto* matrix = new HeadMatrix(&state->heads);
  scroll->setWidget(matrix);
  QObject::connect(matrix, &HeadMatrix::HeadActivated, &state->heads, &HeadStore::Select);
  return scroll;
}

}  // namespace headscope::ui
