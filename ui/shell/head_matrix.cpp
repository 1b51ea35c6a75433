// SPDX-License-Identifier: Apache-2.0
#include "head_matrix.h"

#include <QContextMenuEvent>
#include <QEvent>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollArea>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "panes.h"
#include "picture_file.h"
#include "qt_matrix_surface.h"
#include "shown_text.h"
#include "visible_focus.h"

namespace headscope::ui {
namespace {

constexpr double kMatrixMargin = 10;
constexpr int kMetricsInToolTip = 5;  // beside the one that the colours show
constexpr QColor kFrameLight(250, 250, 250), kFrameDark(10, 10, 12);

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
  connect(store, &HeadStore::ResultsChanged, this, [this] { update(); });
  connect(store, &HeadStore::TagsChanged, this, [this] { update(); });
}

void HeadMatrix::Rebuild() {
  layout_ = analysis::MatrixLayout(store_->trace().heads, store_->trace().kv_head_of_head);
  hovered_.reset();
  updateGeometry();
  Refit();
}

void HeadMatrix::Refit() {
  const QtMatrixSurface surface(font(), palette());
  const analysis::MatrixMargins labels = analysis::LabelMargins(surface);
  const double legend = analysis::LegendHeight(surface, Picture());
  layout_.Fit({kMatrixMargin + labels.left, kMatrixMargin + labels.top, width() - 2 * kMatrixMargin - labels.left,
               height() - 2 * kMatrixMargin - labels.top - legend});
  update();
}

analysis::MatrixPicture HeadMatrix::Picture() const {
  analysis::MatrixPicture picture;
  picture.layout = layout_;
  if (!store_->IsClassMetric()) {
    picture.scale = store_->Scale();
    picture.title = store_->MetricTitle();
  }
  picture.cell = [this, scale = picture.scale](analysis::HeadId head) -> analysis::MatrixCell {
    const analysis::HeadStatistics* statistics = store_->Find(head);
    if (statistics == nullptr && !store_->IsResultMetric()) return {};
    if (!scale) return {analysis::ClassColor(statistics->head_class), {}};
    const double value = store_->MetricOf(head);
    if ((store_->IsResultMetric() || store_->shows_differences()) && std::isnan(value)) return {};  // not done
    return analysis::CellOfMetric(*scale, value);
  };
  return picture;
}

QSize HeadMatrix::minimumSizeHint() const {
  const QtMatrixSurface surface(font(), palette());
  const analysis::MatrixMargins labels = analysis::LabelMargins(surface);
  const double legend = analysis::LegendHeight(surface, Picture());
  return {
      static_cast<int>(std::ceil(std::max(240.0, layout_.LeastWidth() + labels.left + 2 * kMatrixMargin))),
      static_cast<int>(std::ceil(std::max(120.0, layout_.LeastHeight() + labels.top + 2 * kMatrixMargin + legend)))};
}

QSize HeadMatrix::sizeHint() const {
  return minimumSizeHint().expandedTo({400, 360});
}

std::optional<QPoint> HeadMatrix::CellCentre(analysis::HeadId head) const {
  const auto cell = layout_.CellOf(head);
  if (!cell) return std::nullopt;
  return ToQt(layout_.CellBox(*cell)).center().toPoint();
}

std::optional<QColor> HeadMatrix::CellColor(analysis::HeadId head) const {
  const std::optional<analysis::Rgb> color = Picture().cell(head).color;
  return color ? std::optional(ToQt(*color)) : std::nullopt;
}

void HeadMatrix::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().base());
  if (layout_.num_rows() == 0) {
    painter.setPen(palette().color(QPalette::Disabled, QPalette::Text));
    painter.drawText(rect().adjusted(16, 16, -16, -16), Qt::AlignCenter | Qt::TextWordWrap,
                     tr("Open a trace, or capture one from a model."));
    PaintFocus(&painter, this, rect());
    return;
  }
  QtMatrixSurface surface(font(), palette(), &painter);
  const analysis::MatrixPicture picture = Picture();
  surface.SetOverCell([&](analysis::HeadId head, const analysis::Box& box) {
    PaintOverCell(painter, head, picture.cell(head), ToQt(box));
  });
  analysis::PaintMatrix(picture, width() - kMatrixMargin, &surface);
  // A dark frame inside of a light one: one of them is seen on any colour of a cell.
  const auto outline = [&](std::optional<analysis::MatrixLayout::Cell> cell, double width) {
    if (!cell) return;
    painter.setBrush(Qt::NoBrush);
    const QRectF box = ToQt(layout_.CellBox(*cell)).adjusted(-0.5, -0.5, 0.5, 0.5);
    painter.setPen(QPen(kFrameLight, width));
    painter.drawRect(box);
    painter.setPen(QPen(kFrameDark, width / 2));
    painter.drawRect(box.adjusted(width / 2, width / 2, -width / 2, -width / 2));
  };
  outline(hovered_, 1);
  if (store_->selected()) outline(layout_.CellOf(*store_->selected()), 2.5);
  PaintFocus(&painter, this, rect());
}

void HeadMatrix::PaintOverCell(QPainter& painter, analysis::HeadId head, const analysis::MatrixCell& cell,
                               const QRectF& rect) const {
  if (cell.color && store_->ShowsEstimate(head)) {
    // A corner: so far only a quick look at some rows.
    painter.setPen(Qt::NoPen);
    painter.setBrush(ToQt(analysis::InkOn(*cell.color)));
    const double size = std::min(5.0, rect.height() / 3);
    const QPointF corner[] = {rect.topRight(), rect.topRight() - QPointF(size, 0), rect.topRight() + QPointF(0, size)};
    painter.drawPolygon(corner, 3);
  }
  if (store_->Passes(head)) return;
  QColor veil = palette().color(QPalette::Base);  // over what the filter of the table leaves out
  veil.setAlphaF(0.8f);
  painter.fillRect(rect, veil);
}

QString HeadMatrix::ToolTip(analysis::HeadId head) const {
  const TraceSummary& trace = store_->trace();
  const auto at = std::lower_bound(trace.heads.begin(), trace.heads.end(), head) - trace.heads.begin();
  QString text = tr("<b>Layer %1, head %2</b> (KV head %3)")
                     .arg(head.layer)
                     .arg(head.head)
                     .arg(trace.kv_head_of_head[static_cast<size_t>(at)]);
  const analysis::HeadStatistics* const statistics = store_->Find(head);
  const analysis::MetricInfo* const shown = store_->metric_info();
  if (shown != nullptr && (statistics != nullptr || store_->IsResultMetric())) text += ShownMetric(head, *shown);
  if (statistics != nullptr) {
    text += QStringLiteral("<br>%1: %2")
                .arg(QString::fromLatin1(analysis::HeadClassName(statistics->head_class)),
                     QString::fromStdString(statistics->class_reason).toHtmlEscaped());
  }
  if (const QStringList tags = store_->TagsOf(head); !tags.isEmpty())
    text += tr("<br>Tags: %1").arg(Shown(tags.join(QStringLiteral(", "))).toHtmlEscaped());
  if (const HeadResult* result = store_->ResultOf(head); result != nullptr && !result->setting.empty())
    text += tr("<br>Tuned: %1").arg(QString::fromStdString(result->setting).toHtmlEscaped());
  if (statistics == nullptr) return text + tr("<br>not computed yet");
  const bool is_cut = trace.first_token > 0;
  if (is_cut) {
    text +=
        tr("<br>%1 % of its attention lies on tokens before the cut").arg(100 * statistics->outside_mass, 0, 'f', 1);
  }
  if (!store_->IsExact(*statistics))
    text += tr("<br><i>quick estimate from %1 of %2 rows</i>")
                .arg(CountText(statistics->num_rows), CountText(trace.num_rows));
  // What says most of a head, which is what a report shows of it; a list of all would be read by nobody.
  text += QStringLiteral("<table cellspacing='0' cellpadding='1'>");
  int listed = 0;
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    const bool fits = metric.shown != analysis::MetricShown::kOfWholeTrace || !is_cut;
    if (!metric.in_report || !fits || &metric == shown || listed == kMetricsInToolTip) continue;
    text += QStringLiteral("<tr><td>%1&nbsp;</td><td align='right'>%2&nbsp;</td><td>%3</td></tr>")
                .arg(QString::fromStdString(metric.title).toHtmlEscaped(),
                     FormatMetric(analysis::MetricValue(*statistics, metric.name)),
                     QString::fromStdString(metric.unit).toHtmlEscaped());
    ++listed;
  }
  return text + tr("</table><i>All of its statistics are columns of the Heads table.</i>");
}

QString HeadMatrix::ShownMetric(analysis::HeadId head, const analysis::MetricInfo& metric) const {
  const QString unit = metric.unit.empty() ? QString() : u' ' + QString::fromStdString(metric.unit).toHtmlEscaped();
  const auto text_of = [&](double value) {
    return std::isnan(value) ? tr("not known yet") : FormatMetric(value) + unit;
  };
  const double colored = store_->MetricOf(head);
  const analysis::HeadStatistics *const here = store_->Find(head), *const other = store_->FindOther(head);
  const QString title = QString::fromStdString(metric.title).toHtmlEscaped();
  if (store_->IsResultMetric() || here == nullptr || !store_->HasOther())
    return QStringLiteral("<br><b>%1: %2</b>").arg(title, text_of(colored));
  const double value = analysis::MetricValue(*here, metric.name);
  if (other == nullptr) {
    const std::vector<analysis::HeadId>& others = store_->other()->heads;
    return QStringLiteral("<br><b>%1: %2</b>; ").arg(title, text_of(value)) +
           (std::binary_search(others.begin(), others.end(), head) ? tr("not known yet in the other trace")
                                                                   : tr("the other trace has no such head"));
  }
  const double there = analysis::MetricValue(*other, metric.name);
  QString text = tr("<br><b>%1: here %2, in the other trace %3, difference %4</b>")
                     .arg(title, FormatMetric(value), FormatMetric(there), text_of(there - value));
  if (const int64_t rows = store_->other()->num_rows; other->num_rows != rows) {
    text += tr("<br><i>other trace: quick estimate from %1 of %2 rows</i>")
                .arg(CountText(other->num_rows), CountText(rows));
  }
  return text;
}

bool HeadMatrix::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto cell = layout_.CellAt(help->pos().x(), help->pos().y());
  const auto head = cell ? layout_.HeadOf(*cell) : std::nullopt;
  if (head) {
    QToolTip::showText(help->globalPos(), ToolTip(*head), this, ToQt(layout_.CellBox(*cell)).toAlignedRect());
  } else {
    QToolTip::hideText();
  }
  return true;
}

void HeadMatrix::resizeEvent(QResizeEvent*) {
  Refit();
}

void HeadMatrix::mousePressEvent(QMouseEvent* event) {
  const auto cell = layout_.CellAt(event->position().x(), event->position().y());
  if (event->button() != Qt::LeftButton || !cell) return;
  if (const auto head = layout_.HeadOf(*cell)) Q_EMIT HeadActivated(*head);
}

void HeadMatrix::mouseMoveEvent(QMouseEvent* event) {
  const auto cell = layout_.CellAt(event->position().x(), event->position().y());
  if (cell == hovered_) return;
  hovered_ = cell;
  setCursor(cell && layout_.HeadOf(*cell) ? Qt::PointingHandCursor : Qt::ArrowCursor);
  update();
}

void HeadMatrix::leaveEvent(QEvent*) {
  hovered_.reset();
  update();
}

std::optional<analysis::HeadId> HeadBeside(const analysis::MatrixLayout& layout, std::optional<analysis::HeadId> head,
                                           int key) {
  int down = 0, right = 0;
  switch (key) {
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
      return std::nullopt;
  }
  const auto from = head ? layout.CellOf(*head) : std::nullopt;
  // Without a head the first key chooses the first cell; holes of a partial recording are stepped over.
  analysis::MatrixLayout::Cell cell = from.value_or(analysis::MatrixLayout::Cell{-down, -right});
  for (;;) {
    cell.row += down;
    cell.column += right;
    if (cell.row < 0 || cell.row >= layout.num_rows() || cell.column < 0 || cell.column >= layout.num_columns())
      return std::nullopt;
    if (const auto beside = layout.HeadOf(cell)) return beside;
  }
}

void HeadMatrix::keyPressEvent(QKeyEvent* event) {
  if (const auto head = HeadBeside(layout_, store_->selected(), event->key())) {
    Q_EMIT HeadActivated(*head);
  } else if (!IsArrow(event->key())) {
    QWidget::keyPressEvent(event);
  }
}

void HeadMatrix::contextMenuEvent(QContextMenuEvent* event) {
  // By a key it is about the open head, wherever the pointer is.
  if (event->reason() == QContextMenuEvent::Keyboard) {
    if (!store_->selected()) return;
    if (const auto centre = CellCentre(*store_->selected()))
      Q_EMIT HeadMenuWanted(*store_->selected(), mapToGlobal(*centre));
    return;
  }
  const auto cell = layout_.CellAt(event->pos().x(), event->pos().y());
  if (const auto head = cell ? layout_.HeadOf(*cell) : std::nullopt) Q_EMIT HeadMenuWanted(*head, event->globalPos());
}

QWidget* MakeMatrixPane(WindowState* state) {
  auto* scroll = new QScrollArea;
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setWidgetResizable(true);
  scroll->setFocusPolicy(Qt::NoFocus);
  auto* matrix = new HeadMatrix(&state->heads);
  scroll->setWidget(matrix);
  QObject::connect(matrix, &HeadMatrix::HeadActivated, &state->heads, &HeadStore::Select);
  QObject::connect(matrix, &HeadMatrix::HeadMenuWanted, &state->offers, [state](analysis::HeadId head, QPoint global) {
    Q_EMIT state->offers.HeadsMenuWanted({head}, global);
  });
  state->offers.OfferPicture(
      matrix, {.name = QStringLiteral("matrix"),
               .title = QObject::tr("Layers × heads"),
               .write = [matrix](const QString& path, int width) { return WritePicture(matrix, path, width); },
               .why_not = [state] { return state->heads.HasTrace() ? QString() : QObject::tr("no trace is open"); }});
  return scroll;
}

}  // namespace headscope::ui
