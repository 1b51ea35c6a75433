// SPDX-License-Identifier: Apache-2.0
#include "cut_label.h"

#include <QHelpEvent>
#include <QPainter>
#include <QStyle>
#include <QToolTip>

#include "shown_text.h"

namespace headscope::ui {

CutLabel::CutLabel(QWidget* parent) : QLabel(parent) {
  setTextFormat(Qt::PlainText);
  setMinimumWidth(1);
}

QRect CutLabel::Room() const {
  return contentsRect().marginsRemoved({margin(), margin(), margin(), margin()});
}

bool CutLabel::IsCut() const {
  return fontMetrics().horizontalAdvance(text()) > Room().width();
}

bool CutLabel::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip && toolTip().isEmpty() && IsCut()) {
    QToolTip::showText(static_cast<QHelpEvent*>(event)->globalPos(), ShownToolTip(text()), this);
    return true;
  }
  return QLabel::event(event);
}

void CutLabel::paintEvent(QPaintEvent* event) {
  if (!IsCut()) return QLabel::paintEvent(event);
  QPainter painter(this);
  const QRect room = Room();
  const int flags = static_cast<int>(QStyle::visualAlignment(layoutDirection(), alignment()));
  style()->drawItemText(&painter, room, flags, palette(), isEnabled(),
                        fontMetrics().elidedText(text(), Qt::ElideRight, room.width()), foregroundRole());
}

}  // namespace headscope::ui
