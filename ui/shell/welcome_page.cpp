// SPDX-License-Identifier: Apache-2.0
#include "welcome_page.h"

#include <QFileInfo>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QTimer>
#include <algorithm>
#include <utility>

#include "shown_text.h"

namespace headscope::ui {
namespace {

constexpr int kMostRecent = 5, kWidth = 560;

constexpr TourStep kTour[] = {
    {&MakeMatrixPane, "",
     "Every cell is a head, coloured by a metric. Click one, or move with the arrow keys. The Maps tab shows every "
     "head's map at a glance; the table below has the numbers and a filter."},
    {nullptr, "go-map",
     "The map has a query in every row and a key in every column. Zoom with the wheel, drag to pan, press F to fit. "
     "What a method leaves out is grey."},
    {nullptr, "panel",
     "The panel tries out a sparse method: move a slider, and the mask, kept share and CRA follow. CRA is the share of "
     "a "
     "query's attention that is kept."},
    {&MakeMassPane, "",
     "How many queries keep how much of their attention. Drag the line to set the target; Meet target finds the "
     "cheapest parameters that reach it. Drag elsewhere to mark those queries on the map."},
    {&MakeRunsPane, "",
     "Ctrl+R measures the method beside dense attention, Ctrl+Shift+T every method at the same target. Trade-off plots "
     "the results. The Methods menu tunes all heads at once."},
};

constexpr int kSteps = static_cast<int>(std::size(kTour));

void Empty(QVBoxLayout* layout) {
  while (QLayoutItem* item = layout->takeAt(0)) {
    delete item->widget();
    delete item;
  }
}

}  // namespace

std::span<const TourStep> WelcomePage::Tour() {
  return kTour;
}

WelcomePage::WelcomePage(QWidget* parent)
    : QFrame(parent),
      page_(new QWidget(this)),
      tour_(new QWidget(this)),
      recent_(new QVBoxLayout),
      examples_(new QVBoxLayout),
      heads_(new QVBoxLayout),
      recent_title_(new QLabel(tr("Recent"))),
      examples_title_(new QLabel(tr("Examples"))),
      heads_title_(new QLabel(tr("Heads worth a look"))),
      tour_text_(new QLabel),
      next_(new QPushButton),
      before_(new QPushButton(tr("Back"))) {
  setObjectName(QStringLiteral("welcomePage"));
  setAccessibleName(tr("Welcome"));
  setFrameShape(StyledPanel);
  setAutoFillBackground(true);
  auto* title =
      new QLabel(tr("<h2>headscope</h2>A profiler for attention heads: what each head reads, and what a "
                    "sparse method would keep of it."));
  title->setWordWrap(true);
  auto* open = new QPushButton(tr("Open trace…"));
  open->setToolTip(tr("Open a captured trace (Ctrl+O)"));
  auto* capture = new QPushButton(tr("Capture…"));
  capture->setToolTip(tr("Run a model on a prompt and record its heads (Ctrl+N)"));
  auto* tour = new QPushButton(tr("Five-step tour"));
  tour->setObjectName(QStringLiteral("startTour"));
  auto* close = new QPushButton(tr("Close"));
  close->setToolTip(tr("Esc; Help brings this page back"));
  auto* buttons = new QHBoxLayout;
  for (QPushButton* button : {open, capture, tour}) buttons->addWidget(button);
  buttons->addStretch(1);
  buttons->addWidget(close);
  auto* page = new QVBoxLayout(page_);
  page->addWidget(title);
  for (QLabel* label : {recent_title_, examples_title_, heads_title_}) {
    label->setForegroundRole(QPalette::PlaceholderText);
    label->setContentsMargins(0, fontMetrics().height() / 2, 0, 0);
  }
  page->addWidget(recent_title_);
  page->addLayout(recent_);
  page->addWidget(examples_title_);
  page->addLayout(examples_);
  page->addWidget(heads_title_);
  page->addLayout(heads_);
  page->addLayout(buttons);

  tour_text_->setObjectName(QStringLiteral("tourText"));
  tour_text_->setWordWrap(true);
  next_->setObjectName(QStringLiteral("tourNext"));
  auto* steps = new QHBoxLayout;
  steps->addStretch(1);
  steps->addWidget(before_);
  steps->addWidget(next_);
  auto* tour_layout = new QVBoxLayout(tour_);
  tour_layout->addWidget(tour_text_);
  tour_layout->addLayout(steps);

  auto* layout = new QVBoxLayout(this);
  layout->addWidget(page_);
  layout->addWidget(tour_);
  connect(open, &QPushButton::clicked, this, [this] { Q_EMIT OpenRequested({}); });
  connect(capture, &QPushButton::clicked, this, &WelcomePage::CaptureRequested);
  connect(tour, &QPushButton::clicked, this, [this] { ShowStep(0); });
  connect(close, &QPushButton::clicked, this, &QWidget::hide);
  connect(next_, &QPushButton::clicked, this, [this] { ShowStep(step_ + 1); });
  connect(before_, &QPushButton::clicked, this, [this] { ShowStep(step_ - 1); });
  frame_ = new QWidget(parent);
  frame_->setObjectName(QStringLiteral("tourFrame"));
  frame_->setAttribute(Qt::WA_TransparentForMouseEvents);
  frame_->setAutoFillBackground(true);
  frame_->setBackgroundRole(QPalette::Highlight);
  frame_->hide();
  hide();
}

void WelcomePage::Frame(QWidget* widget, std::function<QRect()> part) {
  UnwatchFramed();
  framed_ = widget;
  framed_part_ = std::move(part);
  WatchFramed();
  PlaceFrame();
}

void WelcomePage::WatchFramed() {
  for (QWidget* widget = framed_; widget != nullptr; widget = widget->parentWidget()) {
    watched_.append(widget);
    // It may be the sibling that is watched anyway: an object that filters twice is called once.
    widget->installEventFilter(this);
    if (widget == parentWidget()) break;
  }
}

void WelcomePage::UnwatchFramed() {
  for (const QPointer<QWidget>& widget : std::exchange(watched_, {})) {
    if (widget != nullptr && widget != sibling_) widget->removeEventFilter(this);
  }
}

void WelcomePage::PlaceFrame() {
  if (step_ < 0 || framed_ == nullptr || !framed_->isVisible() || framed_->window() != window()) return frame_->hide();
  const QRect part = framed_part_();
  const QRect area = QRect(framed_->mapTo(parentWidget(), part.topLeft()), part.size()) & parentWidget()->rect();
  if (part.isEmpty() || area.isEmpty()) return frame_->hide();
  if (frame_->isVisible() && frame_->geometry() == area) return;
  constexpr int kThickness = 3;
  frame_->setGeometry(area);
  frame_->setMask(QRegion(frame_->rect()) -
                  QRegion(frame_->rect().adjusted(kThickness, kThickness, -kThickness, -kThickness)));
  frame_->show();
  frame_->raise();
  raise();
}

void WelcomePage::RemoveFrame() {
  UnwatchFramed();
  framed_ = nullptr;
  frame_->hide();
}

void WelcomePage::hideEvent(QHideEvent* event) {
  RemoveFrame();
  QFrame::hideEvent(event);
  Q_EMIT Gone();
}

bool WelcomePage::focusNextPrevChild(bool next) {
  QList<QPushButton*> stops;
  for (QPushButton* button : findChildren<QPushButton*>()) {
    if (button->isVisible() && button->isEnabled()) stops.append(button);
  }
  if (stops.empty()) return false;
  const auto place = [this](const QPushButton* button) {
    const QPoint at = button->mapTo(this, QPoint());
    return std::pair(at.y(), at.x());
  };
  std::sort(stops.begin(), stops.end(), [&](const auto* a, const auto* b) { return place(a) < place(b); });
  const qsizetype at = stops.indexOf(focusWidget()), count = stops.size();
  const qsizetype to = at < 0 ? 0 : (at + (next ? 1 : count - 1)) % count;
  stops[to]->setFocus(next ? Qt::TabFocusReason : Qt::BacktabFocusReason);
  return true;
}

QPushButton* WelcomePage::AddLink(QVBoxLayout* layout, const QString& text, const QString& tip) {
  auto* link = new QPushButton(text);
  link->setFlat(true);
  // It looks like the text around it until it is pointed at or has the keyboard.
  link->setCursor(Qt::PointingHandCursor);
  link->setStyleSheet(
      QStringLiteral("QPushButton { text-align: left; padding: 1px 7px; border: 1px solid transparent; }"
                     "QPushButton:hover { background: palette(midlight); }"
                     "QPushButton:focus { border-color: palette(highlight); }"));
  link->setToolTip(tip);
  layout->addWidget(link);
  return link;
}

void WelcomePage::Open(QWidget* sibling, const QStringList& recent, const std::vector<HeadWorthALook>& heads,
                       const std::vector<Example>& examples) {
  if (sibling_ != sibling) {
    sibling_ = sibling;
    sibling->installEventFilter(this);
  }
  step_ = -1;
  RemoveFrame();
  Empty(recent_);
  Empty(examples_);
  Empty(heads_);
  for (const QString& path : recent.mid(0, kMostRecent)) {
    connect(AddLink(recent_, ShownShort(QFileInfo(path).fileName()).replace(u'&', QStringLiteral("&&")),
                    ShownToolTip(path)),
            &QPushButton::clicked, this, [this, path] {
              hide();
              Q_EMIT OpenRequested(path);
            });
  }
  for (const Example& example : examples) {
    QString text = QString::fromStdString(example.title);
    if (!example.cost.empty() && !QFileInfo::exists(QString::fromStdString(example.path)))
      text += tr(" (made first: %1)").arg(QString::fromStdString(example.cost));
    QPushButton* const link = AddLink(examples_, text, QString::fromStdString(example.help));
    link->setObjectName(QStringLiteral("example-") +
                        QFileInfo(QString::fromStdString(example.path)).completeBaseName());
    connect(link, &QPushButton::clicked, this, [this, example] {
      hide();
      Q_EMIT ExampleRequested(example);
    });
  }
  for (const HeadWorthALook& one : heads) {
    const QString text = tr("%1:%2 – %3").arg(one.head.layer).arg(one.head.head).arg(one.why);
    connect(AddLink(heads_, text, tr("Open this head")), &QPushButton::clicked, this, [this, head = one.head] {
      hide();
      Q_EMIT HeadRequested(head);
    });
  }
  recent_title_->setVisible(!recent.isEmpty());
  examples_title_->setVisible(!examples.empty());
  heads_title_->setVisible(!heads.empty());
  page_->show();
  tour_->hide();
  show();
  Place();
  page_->findChild<QPushButton*>(QStringLiteral("startTour"))->setFocus();
}

void WelcomePage::Place() {
  if (sibling_ == nullptr || !isVisible()) return;
  QRect over(sibling_->mapTo(parentWidget(), QPoint()), sibling_->size());
  const int whole = heightForWidth(std::min(kWidth, over.width()));
  // Of a small window's map too little is left: the page takes what it needs from the panes beside it.
  if (step_ < 0 && (whole > over.height() || over.width() < kWidth)) over = parentWidget()->rect();
  const int width = std::min(kWidth, over.width());
  const int height = std::min(heightForWidth(width) > 0 ? heightForWidth(width) : sizeHint().height(), over.height());
  // A tour lies at the lower end: what it speaks of is to be seen.
  const int top = step_ < 0 ? over.top() + (over.height() - height) / 2 : over.bottom() - height;
  setGeometry(over.left() + (over.width() - width) / 2, top, width, height);
  raise();
}

void WelcomePage::ShowStep(int step) {
  if (step < 0 || step >= kSteps) {
    hide();
    step_ = -1;
    return;
  }
  step_ = step;
  const TourStep& shown = kTour[step];
  tour_text_->setText(tr("<b>%1 of %2.</b> %3").arg(step + 1).arg(kSteps).arg(tr(shown.text)));
  before_->setEnabled(step > 0);
  next_->setText(step + 1 < kSteps ? tr("Next") : tr("Done"));
  page_->hide();
  tour_->show();
  Q_EMIT TourShows(shown.ActionName());
  next_->setFocus();
  // From the inside out: the page's height is that of the new text.
  tour_->layout()->activate();
  layout()->activate();
  Place();
}

void WelcomePage::keyPressEvent(QKeyEvent* event) {
  // A dialog's buttons take Enter, and this page looks like one.
  if (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) {
    if (auto* button = qobject_cast<QPushButton*>(focusWidget()); button != nullptr && button->hasFocus())
      return button->click();
  }
  if (event->key() != Qt::Key_Escape) return QFrame::keyPressEvent(event);
  hide();
  step_ = -1;
}

bool WelcomePage::eventFilter(QObject* watched, QEvent* event) {
  const QEvent::Type type = event->type();
  if (watched == sibling_ && (type == QEvent::Resize || type == QEvent::Move)) Place();
  const bool moves = type == QEvent::Resize || type == QEvent::Move || type == QEvent::Show || type == QEvent::Hide ||
                     type == QEvent::ParentChange;
  const bool is_watched = std::any_of(watched_.begin(), watched_.end(),
                                      [watched](const QPointer<QWidget>& widget) { return widget == watched; });
  if (moves && framed_ != nullptr && is_watched && !std::exchange(placing_, true)) {
    // When the layout is done: of what lies in each other, each is moved in its turn.
    QTimer::singleShot(0, this, [this] {
      placing_ = false;
      if (framed_ == nullptr) return;
      UnwatchFramed();  // a pane that floats lies in another window
      WatchFramed();
      PlaceFrame();
    });
  }
  return QFrame::eventFilter(watched, event);
}

}  // namespace headscope::ui
