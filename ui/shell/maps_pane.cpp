// SPDX-License-Identifier: Apache-2.0
#include "maps_pane.h"

#include <QContextMenuEvent>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/types/round_ticks.h"
#include "head_matrix.h"
#include "panes.h"
#include "picture_file.h"
#include "qt_matrix_surface.h"
#include "while_alive.h"

namespace headscope::ui {
namespace {

constexpr int kLabel = 26, kFrame = 3;
constexpr double kLeastFittedSide = 34;
constexpr double kLeastSide = 12, kMostSide = 256, kZoomStep = 1.25;  // that Ctrl and the wheel lead to
constexpr float kBelowUniform = 3;  // octaves: uniform attention is dark, and not black

}  // namespace

QImage ThumbnailImage(const Thumbnail& thumbnail, const analysis::Palette& palette, const analysis::ValueRange& range) {
  constexpr int kSide = Thumbnail::kSide;
  QImage image(kSide, kSide, QImage::Format_ARGB32);
  image.fill(Qt::transparent);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const float value = thumbnail.log2_p[static_cast<size_t>(y * kSide + x)];
      if (!std::isfinite(value)) continue;
      const float place = analysis::ScalePosition(value, range, /*logarithmic=*/true);
      image.setPixelColor(x, y, ToQt(analysis::ColorAt(palette, static_cast<double>(place))));
    }
  }
  return image;
}

MapsView::MapsView(WindowState* state, QWidget* parent) : QAbstractScrollArea(parent), state_(state) {
  setObjectName(QStringLiteral("mapsView"));
  setAccessibleName(tr("Maps of all heads"));
  setFocusPolicy(Qt::StrongFocus);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  ask_timer_.setSingleShot(true);
  ask_timer_.setInterval(0);
  connect(&ask_timer_, &QTimer::timeout, this, &MapsView::AskForNext);
  HeadStore* const heads = &state->heads;
  connect(heads, &HeadStore::TraceChanged, this, &MapsView::Rebuild);
  connect(heads, &HeadStore::SelectionChanged, this, [this] { viewport()->update(); });
  connect(heads, &HeadStore::FilterChanged, this, [this] { viewport()->update(); });
  connect(&state->queue, &RunQueue::Ended, &ask_timer_, qOverload<>(&QTimer::start));
  connect(&state->sweep, &HeadSweep::Ended, &ask_timer_, qOverload<>(&QTimer::start));
}

void MapsView::Rebuild() {
  images_.clear();
  refused_.clear();
  asked_.reset();
  state_->workbench->CancelThumbnails();
  layout_ = analysis::MatrixLayout(state_->heads.trace().heads, state_->heads.trace().kv_head_of_head);
  LayOut();
}

void MapsView::LayOut() {
  const int columns = layout_.num_columns(), rows = layout_.num_rows();
  const double gaps = columns == 0 ? 0 : layout_.LeastWidth() - columns * analysis::MatrixLayout::kLeast;
  const double fitting = columns == 0 ? 0 : std::floor((viewport()->width() - kLabel - gaps) / columns);
  fitted_side_ = std::max(kLeastFittedSide, fitting);
  side_ = chosen_side_ > 0 ? chosen_side_ : fitted_side_;
  const int width = kLabel + static_cast<int>(std::ceil(columns * side_ + gaps));
  const int height = kLabel + static_cast<int>(std::ceil(rows * (side_ + analysis::MatrixLayout::kGap)));
  verticalScrollBar()->setRange(0, std::max(0, height - viewport()->height()));
  verticalScrollBar()->setPageStep(viewport()->height());
  verticalScrollBar()->setSingleStep(static_cast<int>(side_));
  horizontalScrollBar()->setRange(0, std::max(0, width - viewport()->width()));
  horizontalScrollBar()->setPageStep(viewport()->width());
  PlaceMaps();
}

void MapsView::PlaceMaps() {
  layout_.Place(kLabel - horizontalScrollBar()->value(), kLabel - verticalScrollBar()->value(), side_, side_);
  viewport()->update();
  ask_timer_.start();
}

QRect MapsView::RectOf(analysis::HeadId head) const {
  const auto cell = layout_.CellOf(head);
  return cell ? ToQt(layout_.CellBox(*cell)).toRect() : QRect();
}

std::optional<analysis::HeadId> MapsView::HeadAt(QPoint at) const {
  if (at.x() < kLabel || at.y() < kLabel) return std::nullopt;  // the numbers lie over the maps
  const auto cell = layout_.CellAt(at.x(), at.y());
  return cell ? layout_.HeadOf(*cell) : std::nullopt;
}

void MapsView::AskForNext() {
  if (asked_ || !isVisible() || state_->IsMeasuring()) return;
  const auto& heads = state_->heads.trace().heads;
  const auto next = std::find_if(heads.begin(), heads.end(), [this](analysis::HeadId head) {
    return !images_.contains(head) && !refused_.contains(head) && viewport()->rect().intersects(RectOf(head));
  });
  if (next == heads.end()) return;
  asked_ = *next;
  const auto while_asked = [this, head = *next](auto answer) {
    return WhileAlive(this, [this, head, answer = std::move(answer)](const auto& reply) {
      if (asked_ != head) return;
      asked_.reset();
      answer(reply);
      ask_timer_.start();
    });
  };
  state_->workbench->RequestThumbnail(*next, while_asked([this, head = *next](const ThumbnailPtr& thumbnail) {
    const auto tokens = std::max<int64_t>(state_->heads.trace().num_tokens, 2);
    const float uniform = -std::log2(static_cast<float>(tokens));
    images_[head] = ThumbnailImage(*thumbnail, analysis::SequentialPalette(), {uniform - kBelowUniform, 0});
    viewport()->update();
  }),
                                      while_asked([this, head = *next](const std::string& sentence) {
                                        refused_.insert(head);  // it must not hold up the others
                                        Q_EMIT state_->Failed(QString::fromStdString(sentence));
                                      }));
}

void MapsView::paintEvent(QPaintEvent*) {
  QPainter painter(viewport());
  painter.fillRect(viewport()->rect(), palette().base());
  const QColor faint = palette().color(QPalette::PlaceholderText);
  painter.setPen(faint);
  if (layout_.num_rows() == 0) {
    painter.drawText(viewport()->rect(), Qt::AlignCenter, tr("Open a trace to see the maps of its heads."));
    return;
  }
  const bool is_dark = palette().color(QPalette::Base).lightness() < 128;
  painter.setRenderHint(QPainter::SmoothPixmapTransform);
  for (const analysis::HeadId& head : state_->heads.trace().heads) {
    const QRect rect = RectOf(head);
    if (!viewport()->rect().intersects(rect)) continue;
    const auto image = images_.find(head);
    painter.setOpacity(state_->heads.Passes(head) ? 1 : 0.2);
    if (image == images_.end()) {
      painter.fillRect(rect, QBrush(faint, Qt::BDiagPattern));
    } else {
      painter.fillRect(rect, is_dark ? QColor(20, 20, 24) : QColor(236, 236, 239));
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
  DrawNumbers(&painter);
}

void MapsView::DrawNumbers(QPainter* painter) const {
  constexpr int kFilled = kLabel - kFrame;  // the open head's frame reaches beyond its map
  painter->fillRect(QRect(0, 0, viewport()->width(), kFilled), palette().base());
  painter->fillRect(QRect(0, 0, kFilled, viewport()->height()), palette().base());
  painter->setPen(palette().color(QPalette::PlaceholderText));
  // Small maps have numbers at every second, fifth, .. of them.
  const auto step = [](double room, double text) {
    return static_cast<int>(analysis::RoundStep(std::max(1.0, text / room)));
  };
  const QFontMetricsF metrics(font());
  const int columns = step(side_, metrics.horizontalAdvance(QStringLiteral("000"))),
            rows = step(side_, metrics.height());
  painter->setClipRect(QRect(kLabel, 0, viewport()->width(), kLabel));
  for (int column = 0; column < layout_.num_columns(); column += columns) {
    const double middle = ToQt(layout_.CellBox({0, column})).center().x();
    painter->drawText(QRectF(middle - 50, 2, 100, kLabel - 4), Qt::AlignCenter,
                      QString::number(layout_.heads()[static_cast<size_t>(column)]));
  }
  painter->setClipRect(QRect(0, kLabel, kLabel, viewport()->height()));
  for (int row = 0; row < layout_.num_rows(); row += rows) {
    const double middle = ToQt(layout_.CellBox({row, 0})).center().y();
    painter->drawText(QRectF(0, middle - kLabel, kLabel - 4, 2 * kLabel), Qt::AlignRight | Qt::AlignVCenter,
                      QString::number(layout_.layers()[static_cast<size_t>(row)]));
  }
}

void MapsView::resizeEvent(QResizeEvent*) {
  LayOut();
}
void MapsView::scrollContentsBy(int, int) {
  PlaceMaps();
}
void MapsView::showEvent(QShowEvent* event) {
  QAbstractScrollArea::showEvent(event);
  ask_timer_.start();
}
void MapsView::hideEvent(QHideEvent* event) {
  QAbstractScrollArea::hideEvent(event);
  asked_.reset();
  state_->workbench->CancelThumbnails();
}

void MapsView::wheelEvent(QWheelEvent* event) {
  if (!event->modifiers().testFlag(Qt::ControlModifier)) return QAbstractScrollArea::wheelEvent(event);
  event->accept();
  constexpr double kNotch = 120, kPixelsPerNotch = 50;  // a touchpad tells of small parts of a notch, or of pixels
  const double notches =
      event->angleDelta().isNull() ? event->pixelDelta().y() / kPixelsPerNotch : event->angleDelta().y() / kNotch;
  if (notches != 0) Resize(std::pow(kZoomStep, notches));
}

void MapsView::Resize(double factor) {
  if (layout_.num_rows() == 0) return;
  // Not rounded: small steps of a touchpad would come to nothing. Where few maps fill a wide pane, they may stay as
  // wide.
  chosen_side_ = factor > 0 ? std::clamp(side_ * factor, kLeastSide, std::max(kMostSide, fitted_side_)) : 0;
  LayOut();
  Q_EMIT state_->offers.ViewChanged();
}

QJsonObject MapsView::ViewState() const {
  return {{QStringLiteral("side"), chosen_side_}};
}

void MapsView::RestoreViewState(const QJsonObject& state) {
  const double side = state[QLatin1String("side")].toDouble();
  chosen_side_ = side > 0 ? std::clamp(side, kLeastSide, std::max(kMostSide, fitted_side_)) : 0;
  LayOut();
}

void MapsView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  if (const auto head = HeadAt(event->position().toPoint())) state_->heads.Select(*head);
}

void MapsView::keyPressEvent(QKeyEvent* event) {
  if ((event->modifiers() & ~(Qt::ShiftModifier | Qt::KeypadModifier)) == Qt::NoModifier) {
    if (event->key() == Qt::Key_Plus || event->key() == Qt::Key_Equal) return Resize(kZoomStep);
    if (event->key() == Qt::Key_Minus) return Resize(1 / kZoomStep);
    if (event->key() == Qt::Key_0) return Resize(0);
  }
  const std::optional<analysis::HeadId> next = HeadBeside(layout_, state_->heads.selected(), event->key());
  if (!next) {
    if (!IsArrow(event->key())) QAbstractScrollArea::keyPressEvent(event);
    return;
  }
  state_->heads.Select(*next);
  const QRect rect = RectOf(*next);
  const auto bring = [](QScrollBar* bar, int begin, int end, int room) {
    if (begin < kLabel) bar->setValue(bar->value() + begin - kLabel);
    if (end > room) bar->setValue(bar->value() + end - room + 4);
  };
  bring(verticalScrollBar(), rect.top(), rect.bottom(), viewport()->height());
  bring(horizontalScrollBar(), rect.left(), rect.right(), viewport()->width());
}

void MapsView::contextMenuEvent(QContextMenuEvent* event) {
  // By a key it is about the open head, wherever the pointer is.
  const bool by_key = event->reason() == QContextMenuEvent::Keyboard;
  const std::optional<analysis::HeadId> head = by_key ? state_->heads.selected() : HeadAt(event->pos());
  if (!head) return;
  Q_EMIT state_->offers.HeadsMenuWanted({*head},
                                        by_key ? viewport()->mapToGlobal(RectOf(*head).center()) : event->globalPos());
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
  QToolTip::showText(help->globalPos(),
                     text + tr("\nThe largest probabilities of a sample of its queries\nCtrl + wheel, or + and -: "
                               "larger or smaller maps; 0: "
                               "as wide as the pane"),
                     this);
  return true;
}

QString MapsView::WhyNoPicture() const {
  const auto& heads = state_->heads.trace().heads;
  if (heads.empty()) return tr("no trace is open");
  const bool is_behind = visibleRegion().isEmpty();  // a tab, where the pane has no size that says what is in sight
  const bool has_all = std::all_of(heads.begin(), heads.end(), [&](analysis::HeadId head) {
    const bool is_drawn = is_behind || viewport()->rect().intersects(RectOf(head));
    return images_.contains(head) || refused_.contains(head) || !is_drawn;
  });
  return has_all ? QString() : tr("its maps are not made yet: show the pane until they are");
}

QWidget* MakeMapsPane(WindowState* state) {
  auto* view = new MapsView(state);
  state->offers.OfferView(
      view, QStringLiteral("maps"),
      {[view] { return view->ViewState(); }, [view](const QJsonObject& kept) { view->RestoreViewState(kept); }});
  state->offers.OfferPicture(
      view, {.name = QStringLiteral("maps"),
             .title = QObject::tr("Maps"),
             .write = [view](const QString& path, int width) { return WritePicture(view, path, width); },
             .why_not = [view] { return view->WhyNoPicture(); }});
  return view;
}

}  // namespace headscope::ui
