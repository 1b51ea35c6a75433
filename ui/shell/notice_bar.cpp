// SPDX-License-Identifier: Apache-2.0
#include "notice_bar.h"

#include <QHBoxLayout>
#include <QStyle>
#include <QToolButton>
#include <utility>

#include "shown_text.h"

namespace headscope::ui {
NoticeBar::NoticeBar(QWidget* parent) : QFrame(parent), label_(new QLabel(this)), action_(new QPushButton(this)) {
  setObjectName(QStringLiteral("notice"));
  setAutoFillBackground(true);
  label_->setObjectName(QStringLiteral("noticeText"));
  label_->setWordWrap(true);
  // Lines break between words and behind the slashes of a path. A name that is still too long is cut, and copied whole:
  // it must not widen the window.
  label_->setMinimumWidth(1);
  label_->setTextFormat(Qt::PlainText);  // sentences name files and tokens, which must not be read as markup
  label_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  action_->setObjectName(QStringLiteral("noticeAction"));
  action_->setAutoDefault(false);
  auto* close = new QToolButton(this);
  close->setObjectName(QStringLiteral("noticeClose"));
  close->setAutoRaise(true);
  // White as the words: the style's own icon is for its own ground, and dark on this one.
  close->setText(QString(QChar(0x00D7)));
  QFont large = close->font();
  large.setPointSizeF(1.5 * large.pointSizeF());
  close->setFont(large);
  // As high as with an icon: each row that the bar takes is one less for the map.
  const int side = style()->pixelMetric(QStyle::PM_SmallIconSize, nullptr, this) + 6;
  close->setFixedSize(side, side);
  QPalette white = close->palette();
  white.setColor(QPalette::ButtonText, Qt::white);
  close->setPalette(white);
  close->setToolTip(tr("Close"));
  close->setAccessibleName(tr("Close"));
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(12, 6, 6, 6);
  layout->addWidget(label_, 1);
  layout->addWidget(action_);
  layout->addWidget(close);
  timer_.setSingleShot(true);
  connect(action_, &QPushButton::clicked, this, &NoticeBar::TakeOffer);
  connect(close, &QToolButton::clicked, this, &NoticeBar::Dismiss);
  connect(&timer_, &QTimer::timeout, this, &NoticeBar::Dismiss);
  hide();
}

void NoticeBar::ShowError(const QString& sentence) {
  Show(sentence, Kind::kError);
  Q_EMIT Said(sentence, true);
}

void NoticeBar::ShowMessage(const QString& sentence) {
  Show(sentence, Kind::kMessage);
  Q_EMIT Said(sentence, false);
}

void NoticeBar::ShowOffer(const QString& sentence, const QString& button, std::function<void()> act) {
  offer_ = {sentence, button, std::move(act)};
  ++newest_offer_;
  Show(sentence, Kind::kOffer);
  Q_EMIT Said(sentence, false);
}

void NoticeBar::Dismiss() {
  timer_.stop();
  if (shown_ == Kind::kOffer) offer_.reset();
  if (offer_) {
    Show(offer_->sentence, Kind::kOffer);
  } else {
    hide();
  }
}

void NoticeBar::DismissError() {
  if (isVisibleTo(parentWidget()) && shown_ == Kind::kError) Dismiss();
}

void NoticeBar::WithdrawOffer(int number) {
  if (!offer_ || number != newest_offer_) return;
  offer_.reset();
  if (shown_ == Kind::kOffer) hide();
}

void NoticeBar::TakeOffer() {
  if (!offer_) return;
  const Offer taken = *std::exchange(offer_, std::nullopt);
  hide();
  taken.act();
}

void NoticeBar::Show(const QString& sentence, Kind kind) {
  constexpr int kShownMs = 6000;
  shown_ = kind;
  label_->setText(Shown(sentence));
  action_->setVisible(kind == Kind::kOffer);
  if (kind == Kind::kOffer) action_->setText(offer_->button);
  QPalette colors = palette();
  colors.setColor(QPalette::Window, kind == Kind::kError ? QColor(150, 36, 36) : QColor(38, 92, 140));
  colors.setColor(QPalette::WindowText, QColor(255, 255, 255));
  setPalette(colors);
  if (kind == Kind::kMessage) {
    timer_.start(kShownMs);
  } else {
    timer_.stop();
  }
  show();
}

}  // namespace headscope::ui
