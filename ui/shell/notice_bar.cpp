#include "notice_bar.h"

#include <QHBoxLayout>
#include <QStyle>
#include <QToolButton>

namespace headscope::ui {

NoticeBar::NoticeBar(QWidget* parent) : QFrame(parent), label_(new QLabel(this)) {
  setObjectName(QStringLiteral("notice"));
  setAutoFillBackground(true);
  label_->setObjectName(QStringLiteral("noticeText"));
  label_->setWordWrap(true);
  label_->setTextFormat(Qt::PlainText);  // sentences name files and tokens, which must not be read as markup
  label_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  auto* close = new QToolButton(this);
  close->setObjectName(QStringLiteral("noticeClose"));
  close->setAutoRaise(true);
  close->setIcon(style()->standardIcon(QStyle::SP_TitleBarCloseButton));
  close->setToolTip(tr("Close"));
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(12, 6, 6, 6);
  layout->addWidget(label_, 1);
  layout->addWidget(close);
  timer_.setSingleShot(true);
  connect(close, &QToolButton::clicked, this, &QWidget::hide);
  connect(&timer_, &QTimer::timeout, this, &QWidget::hide);
  hide();
}

void NoticeBar::ShowError(const QString& sentence) {
  Show(sentence, true);
}

void NoticeBar::ShowMessage(const QString& sentence) {
  Show(sentence, false);
}

void NoticeBar::Show(const QString& sentence, bool error) {
  constexpr int kShownMs = 6000;
  label_->setText(sentence);
  QPalette colors = palette();
  colors.setColor(QPalette::Window, error ? QColor(150, 36, 36) : QColor(38, 92, 140));
  colors.setColor(QPalette::WindowText, QColor(255, 255, 255));
  setPalette(colors);
  if (error) {
    timer_.stop();
  } else {
    timer_.start(kShownMs);
  }
  show();
}

}  // namespace headscope::ui
