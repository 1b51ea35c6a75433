// SPDX-License-Identifier: Apache-2.0
#include "figure_pane.h"

#include <QDockWidget>
#include <QPainter>
#include <QScreen>
#include <QSignalBlocker>
#include <QToolBar>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "allowed.h"
#include "kept_choices.h"
#include "panes.h"
#include "shown_text.h"
#include "study_buttons.h"

namespace headscope::ui {
namespace {

constexpr double kPixelsPerPoint = 1.15;  // of the screen: a figure's letters are as large as the panes'
constexpr QSize kEnlarged(1040, 620);

QDockWidget* DockOf(QWidget* widget) {
  while (widget != nullptr && qobject_cast<QDockWidget*>(widget) == nullptr) widget = widget->parentWidget();
  return static_cast<QDockWidget*>(widget);
}

}  // namespace

FigureView::FigureView(FigureStudy* study, QWidget* parent) : QWidget(parent), study_(study) {
  setObjectName(QStringLiteral("figureView"));
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
  connect(study, &FigureStudy::Changed, this, &FigureView::Refresh);
  Refresh();
}

void FigureView::Refresh() {
  if (picture_ != study_->picture()) {
    picture_ = study_->picture();
    image_ = {};
    if (picture_ != nullptr) {
      // The image looks at the picture's own pixels, which stay as long as it is shown.
      image_ = QImage(reinterpret_cast<const uchar*>(picture_->rgb.data()), picture_->width, picture_->height,
                      picture_->width * 4, QImage::Format_RGB32);
      image_.setDevicePixelRatio(devicePixelRatioF());
    }
  }
  if (study_->working()) {
    text_ = study_->share() < 0 ? tr("Computing …")
                                : tr("Computing … %1 %").arg(static_cast<int>(std::floor(100 * study_->share())));
  } else if (study_->waits()) {
    text_ = tr("Waiting for the measured run to finish.");
  } else if (!study_->error().isEmpty()) {
    text_ = study_->error();
  } else if (study_->cancelled()) {
    text_ = tr("Cancelled. Press Draw again.");
  } else if (study_->choice() == nullptr) {
    text_ = tr("Choose a figure above.");
  } else {
    text_ = study_->WhyNot();
    if (!text_.isEmpty()) text_ = text_.at(0).toUpper() + text_.mid(1) + u'.';
  }
  const FigureChoice* const choice = study_->choice();
  setAccessibleName(choice == nullptr ? tr("Figure") : tr("Figure: %1").arg(QString::fromStdString(choice->title)));
  setAccessibleDescription(text_);
  update();
}

void FigureView::TellPage() {
  study_->SetPage((QSizeF(size()) / kPixelsPerPoint).toSize(), kPixelsPerPoint * devicePixelRatioF(),
                  palette().color(QPalette::Base).lightness() < 128);
}

void FigureView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().base());
  if (!image_.isNull()) {
    // Of another size for a moment, while the pane is resized.
    painter.setRenderHint(QPainter::SmoothPixmapTransform);
    const QSizeF room = size();
    QSizeF shown = image_.deviceIndependentSize();
    if (std::abs(shown.width() - room.width()) > 2 || std::abs(shown.height() - room.height()) > 2)
      shown.scale(room, Qt::KeepAspectRatio);
    painter.drawImage(QRectF(QPointF(), shown), image_);
  }
  if (image_.isNull() || study_->working()) {
    painter.setPen(palette().color(QPalette::PlaceholderText));
    painter.drawText(rect().adjusted(12, 4, -12, -4),
                     (image_.isNull() ? Qt::AlignCenter : Qt::AlignRight | Qt::AlignBottom) | Qt::TextWordWrap, text_);
  }
}

void FigureView::resizeEvent(QResizeEvent*) {
  TellPage();
}

void FigureView::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) TellPage();
}

void FigureView::showEvent(QShowEvent*) {
  TellPage();
  study_->SetWanted(true);
}
void FigureView::hideEvent(QHideEvent*) {
  study_->SetWanted(false);
}

FigurePane::FigurePane(WindowState* state, QWidget* parent)
    : QWidget(parent),
      study_(&state->figures),
      figure_(new QComboBox),
      heads_(new QComboBox),
      save_(new QPushButton(tr("Save…"))),
      enlarge_(new QPushButton),
      caption_(new QLabel) {
  figure_->setObjectName(QStringLiteral("figureChoice"));
  figure_->setAccessibleName(tr("Figure"));
  figure_->addItem(tr("Choose a figure …"));
  for (const FigureChoice& choice : study_->choices()) {
    const QString source = QString::fromStdString(choice.source);
    figure_->addItem(QString::fromStdString(choice.title), QString::fromStdString(choice.name));
    figure_->setItemData(figure_->count() - 1,
                         source.isEmpty() ? QString::fromStdString(choice.help)
                                          : tr("%1 (%2)").arg(QString::fromStdString(choice.help), source),
                         Qt::ToolTipRole);
  }
  heads_->setObjectName(QStringLiteral("figureHeads"));
  heads_->setAccessibleName(tr("Heads of the figure"));
  heads_->setToolTip(tr("The heads that the figure shows"));
  for (const QString& text : {tr("all heads"), tr("heads that the filter shows"), tr("the open head")})
    heads_->addItem(text);
  for (QComboBox* box : {figure_, heads_}) {
    box->setMinimumContentsLength(8);
    box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  }
  const auto* const buttons =
      new StudyButtons(study_, QStringLiteral("figure"),
                       {.start = tr("Draw again"),
                        .start_help = tr("Stop drawing the figure, or draw it again after a cancel"),
                        .copy_help = tr("Copy the command that draws this figure in a terminal")},
                       this);
  save_->setObjectName(QStringLiteral("figureSave"));
  save_->setToolTip(tr("Save the figure as .svg, .pdf or .png, or its numbers as .json or .csv"));
  enlarge_->setObjectName(QStringLiteral("figureEnlarge"));
  caption_->setObjectName(QStringLiteral("figureCaption"));
  caption_->setTextFormat(Qt::PlainText);
  caption_->setMinimumWidth(1);
  // A bar, whose last buttons go behind its arrow where the pane is narrow: what is in a layout makes the window as
  // wide as all of it.
  auto* top = new QToolBar;
  for (QComboBox* box : {figure_, heads_}) {
    box->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    top->addWidget(box);
  }
  for (QPushButton* button : {buttons->start(), save_, buttons->copy(), enlarge_}) top->addWidget(button);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 2, 6, 4);
  layout->setSpacing(2);
  layout->addWidget(top);
  layout->addWidget(new FigureView(study_), 1);
  layout->addWidget(caption_);
  connect(figure_, &QComboBox::currentIndexChanged, this,
          [this](int index) { study_->Choose(figure_->itemData(index).toString()); });
  connect(heads_, &QComboBox::currentIndexChanged, this,
          [this](int index) { study_->SetHeads(static_cast<FigureStudy::Heads>(index)); });
  connect(save_, &QPushButton::clicked, study_, &FigureStudy::SaveWanted);
  connect(enlarge_, &QPushButton::clicked, this, &FigurePane::Enlarge);
  connect(study_, &FigureStudy::Changed, this, &FigurePane::Refresh);
  KeepChoices(&state->offers, this, QStringLiteral("figures"), {figure_, heads_});
  connect(study_, &FigureStudy::Changed, &state->offers, &PaneOffers::ViewChanged);  // it may be chosen by a command
  Refresh();
}

void FigurePane::Enlarge() {
  QDockWidget* const dock = DockOf(this);
  if (dock == nullptr) return;
  dock->setFloating(!dock->isFloating());
  if (dock->isFloating()) {
    // Over the middle of the window, and nowhere off the screen, as the pane's own place at the window's edge would be.
    const QRect screen = dock->screen()->availableGeometry(), window = dock->parentWidget()->frameGeometry();
    QRect place(QPoint(), kEnlarged.boundedTo(screen.size()));
    place.moveCenter(window.center());
    place.moveLeft(std::clamp(place.left(), screen.left(), screen.right() + 1 - place.width()));
    place.moveTop(std::clamp(place.top(), screen.top(), screen.bottom() + 1 - place.height()));
    dock->setGeometry(place);
  }
  Refresh();
}

bool FigurePane::event(QEvent* event) {
  // A dock that was torn off or put back by its title.
  if (event->type() == QEvent::Resize || event->type() == QEvent::Show) Refresh();
  return QWidget::event(event);
}

void FigurePane::Refresh() {
  const FigureChoice* const choice = study_->choice();
  // It may have been chosen elsewhere.
  const QSignalBlocker block(figure_);
  figure_->setCurrentIndex(choice == nullptr ? 0 : figure_->findData(QString::fromStdString(choice->name)));
  const QString why_not = study_->WhyNot();
  Allow(save_, why_not.isEmpty(), why_not);
  const QDockWidget* const dock = DockOf(this);
  const bool floating = dock != nullptr && dock->isFloating();
  enlarge_->setText(floating ? tr("Dock again") : tr("Enlarge"));
  enlarge_->setToolTip(floating ? tr("Put the pane back in its place") : tr("Show the figure in its own window"));
  QString caption, help;
  if (const FigurePicturePtr& picture = study_->picture(); picture != nullptr) {
    caption = QString::fromStdString(picture->caption);
    help = caption;
    if (!picture->source.empty()) help += u'\n' + tr("After %1").arg(QString::fromStdString(picture->source));
  } else if (choice != nullptr) {
    caption = help = QString::fromStdString(choice->help);
  }
  caption_->setText(fontMetrics().elidedText(caption, Qt::ElideRight, std::max(1, width() - 14)));
  caption_->setToolTip(ShownToolTip(help));
}

QWidget* MakeFigurePane(WindowState* state) {
  return new FigurePane(state);
}

}  // namespace headscope::ui
