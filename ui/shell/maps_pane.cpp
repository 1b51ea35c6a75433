// SPDX-License-Identifier: Apache-2.0
#include "maps_pane.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "panes.h"
#include "while_alive.h"

namespace headscope::ui {
namespace {

constexpr int kGap = 4, kLabel = 26, kLeastSide = 34;
// A head whose map does not come, since it cannot be read, must not hold up the others.
constexpr int kPatienceMs = 20000;

}  // namespace

QImage ThumbnailImage(const Thumbnail& thumbnail, const analysis::ColorMap& colors, float least_log2) {
  constexpr int kSide = Thumbnail::kSide;
  QImage image(kSide, kSide, QImage::Format_ARGB32);
  image.fill(Qt::transparent);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const float value = thumbnail.log2_p[static_cast<size_t>(y * kSide + x)];
      if (!std::isfinite(value)) continue;
      const float place = std::clamp((value - least_log2) / -least_log2, 0.0f, 1.0f);
      const analysis::Rgb color = colors.palette[static_cast<size_t>(std::lround(place * 255))];
      image.setPixelColor(x, y, QColor(color.red, color.green, color.blue));
    }
  }
  return image;
}

MapsView::MapsView(WindowState* state, QWidget* parent) : QAbstractScrollArea(parent), state_(state) {
  setObjectName(QStringLiteral("mapsView"));
  setAccessibleName(tr("Maps of all heads"));
  setFocusPolicy(Qt::StrongFocus);
  setFrameShape(NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  ask_timer_.setSingleShot(true);
  ask_timer_.setInterval(0);
  patience_.setSingleShot(true);
  patience_.setInterval(kPatienceMs);
  connect(&ask_timer_, &QTimer::timeout, this, &MapsView::AskForNext);
  connect(&patience_, &QTimer::timeout, this, [this] {
    if (asked_) refused_.insert(*asked_);
    asked_.reset();
    AskForNext();
  });
  HeadStore* const heads = &state->heads;
  connect(heads, &HeadStore::TraceChanged, this, &MapsView::Rebuild);
  connect(heads, &HeadStore::SelectionChanged, this, [this] { viewport()->update(); });
  connect(heads, &HeadStore::FilterChanged, this, [this] { viewport()->update(); });
  connect(&state->queue, &RunQueue::Ended, &ask_timer_, qOverload<>(&QTimer::start));
  connect(&state->sweep, &HeadSweep::Ended, &ask_timer_, qOverload<>(&QTimer::start));
}

int MapsView::side() const {
  if (columns_ == 0) return kLeastSide;
  return std::max(kLeastSide, (viewport()->width() - kLabel) / columns_ - kGap);
}

void MapsView::Rebuild() {
  images_.clear();
  refused_.clear();
  asked_.reset();
  patience_.stop();
  state_->workbench->CancelThumbnails();
  layers_.clear();
  columns_ = 0;
  for (const analysis::HeadId& head : state_->heads.trace().heads) {
    if (layers_.empty() || layers_.back() != head.layer) layers_.push_back(head.layer);
    columns_ = std::max(columns_, head.head + 1);
  }
  LayOut();
}

void MapsView::LayOut() {
  const int pitch = side() + kGap;
  const int height = static_cast<int>(layers_.size()) * pitch + kLabel, width = columns_ * pitch + kLabel;
  verticalScrollBar()->setRange(0, std::max(0, height - viewport()->height()));
  verticalScrollBar()->setPageStep(viewport()->height());
  verticalScrollBar()->setSingleStep(pitch);
  horizontalScrollBar()->setRange(0, std::max(0, width - viewport()->width()));
  horizontalScrollBar()->setPageStep(viewport()->width());
  viewport()->update();
  ask_timer_.start();
}

QRect MapsView::RectOf(analysis::HeadId head) const {
  const auto layer = std::lower_bound(layers_.begin(), layers_.end(), head.layer) - layers_.begin();
  const int pitch = side() + kGap;
  return {kLabel + head.head * pitch - horizontalScrollBar()->value(),
          kLabel + static_cast<int>(layer) * pitch - verticalScrollBar()->value(), side(), side()};
}

std::optional<analysis::HeadId> MapsView::HeadAt(QPoint at) const {
  for (const analysis::HeadId& head : state_->heads.trace().heads) {
    if (RectOf(head).contains(at)) return head;
  }
  return std::nullopt;
}

void MapsView::AskForNext() {
  if (asked_ || !isVisible() || state_->IsMeasuring()) return;
  const auto& heads = state_->heads.trace().heads;
  const auto next = std::find_if(heads.begin(), heads.end(), [this](analysis::HeadId head) {
    return !images_.contains(head) && !refused_.contains(head) && viewport()->rect().intersects(RectOf(head));
  });
  if (next == heads.end()) return;
  asked_ = *next;
  patience_.start();
  state_->workbench->RequestThumbnail(*next, WhileAlive(this, [this, head = *next](const ThumbnailPtr& thumbnail) {
    if (asked_ != head) return;
    asked_.reset();
    patience_.stop();
    const auto tokens = static_cast<float>(std::max<int64_t>(state_->heads.trace().num_tokens, 2));
    images_[head] = ThumbnailImage(*thumbnail, analysis::ColorMaps().front(), -std::log2(tokens) - 3);
    viewport()->update();
    ask_timer_.start();
  }));
}

void MapsView::paintEvent(QPaintEvent*) {
  QPainter painter(viewport());
  painter.fillRect(viewport()->rect(), palette().base());
  const QColor faint = palette().color(QPalette::PlaceholderText);
  painter.setPen(faint);
  if (layers_.empty()) {
    painter.drawText(viewport()->rect(), Qt::AlignCenter, tr("Open a trace to see the maps of its heads."));
    return;
  }
  painter.setRenderHint(QPainter::SmoothPixmapTransform);
  for (const analysis::HeadId& head : state_->heads.trace().heads) {
    const QRect rect = RectOf(head);
    painter.setPen(faint);
    if (head.layer == layers_.front())
      painter.drawText(QRect(rect.left(), 2 - verticalScrollBar()->value(), rect.width(), kLabel - 4), Qt::AlignCenter,
                       QString::number(head.head));
    if (!viewport()->rect().intersects(rect)) continue;
    if (head.head == 0)
      painter.drawText(QRect(-horizontalScrollBar()->value(), rect.top(), kLabel - 4, rect.height()),
                       Qt::AlignRight | Qt::AlignVCenter, QString::number(head.layer));
    const auto image = images_.find(head);
    painter.setOpacity(state_->heads.Passes(head) ? 1 : 0.2);
    if (image == images_.end()) {
      painter.fillRect(rect, QBrush(faint, Qt::BDiagPattern));
    } else {
      painter.fillRect(rect, QColor(20, 20, 24));
      painter.drawImage(rect, image->second);
    }
    painter.setOpacity(1);
    if (state_->heads.selected() != head) continue;
    // Two frames: one of them is seen on any ground.
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(Qt::white, 2));
    painter.drawRect(rect);
    painter.setPen(QPen(palette().color(QPalette::Highlight), 2));
    painter.drawRect(rect.adjusted(-2, -2, 2, 2));
  }
}

void MapsView::resizeEvent(QResizeEvent*) {
  LayOut();
}
void MapsView::scrollContentsBy(int, int) {
  viewport()->update();
  ask_timer_.start();
}
void MapsView::showEvent(QShowEvent* event) {
  QAbstractScrollArea::showEvent(event);
  ask_timer_.start();
}
void MapsView::hideEvent(QHideEvent* event) {
  QAbstractScrollArea::hideEvent(event);
  asked_.reset();
  patience_.stop();
  state_->workbench->CancelThumbnails();
}

void MapsView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  if (const auto head = HeadAt(event->position().toPoint())) state_->heads.Select(*head);
}

void MapsView::keyPressEvent(QKeyEvent* event) {
  const auto selected = state_->heads.selected();
  analysis::HeadId head = selected.value_or(analysis::HeadId{});
  switch (event->key()) {
    case Qt::Key_Left:
      --head.head;
      break;
    case Qt::Key_Right:
      ++head.head;
      break;
    case Qt::Key_Up:
    case Qt::Key_Down: {
      const auto layer = std::lower_bound(layers_.begin(), layers_.end(), head.layer) - layers_.begin() +
                         (event->key() == Qt::Key_Up ? -1 : 1);
      if (layer < 0 || layer >= std::ssize(layers_)) return;
      head.layer = layers_[static_cast<size_t>(layer)];
      break;
    }
    default:
      QAbstractScrollArea::keyPressEvent(event);
      return;
  }
  state_->heads.Select(head);  // one that was not recorded changes nothing
  const QRect rect = RectOf(state_->heads.selected().value_or(head));
  if (rect.top() < 0) verticalScrollBar()->setValue(verticalScrollBar()->value() + rect.top() - kLabel);
  if (rect.bottom() > viewport()->height())
    verticalScrollBar()->setValue(verticalScrollBar()->value() + rect.bottom() - viewport()->height() + kGap);
}

bool MapsView::viewportEvent(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QAbstractScrollArea::viewportEvent(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto head = HeadAt(help->pos());
  if (!head) {
    QToolTip::hideText();
    return true;
  }
  QString text = tr("Layer %1, head %2").arg(head->layer).arg(head->head);
  if (const analysis::HeadStatistics* statistics = state_->heads.Find(*head))
    text += QStringLiteral(": %1").arg(QString::fromLatin1(analysis::HeadClassName(statistics->head_class)));
  QToolTip::showText(help->globalPos(), text + tr("\nThe largest probabilities of a sample of its queries"), this);
  return true;
}

QWidget* MakeMapsPane(WindowState* state) {
  return new MapsView(state);
}

}  // namespace headscope::ui
