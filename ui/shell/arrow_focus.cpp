// SPDX-License-Identifier: Apache-2.0
#include "arrow_focus.h"

#include <QKeyEvent>
#include <QToolBar>
#include <QToolButton>

namespace headscope::ui {

ArrowFocus::ArrowFocus(QToolBar* bar) : QObject(bar) {
  for (QAction* action : bar->actions()) {
    if (auto* button = qobject_cast<QToolButton*>(bar->widgetForAction(action))) buttons_.append(button);
  }
  for (QToolButton* button : buttons_) {
    button->setFocusPolicy(Qt::NoFocus);  // a click leaves the keyboard with the map
    button->installEventFilter(this);
  }
  SetStop(nullptr);
}

bool ArrowFocus::CanTake(const QToolButton* button) {
  // Not yet shown counts: the bar is filled before the window is.
  return button != nullptr && button->isEnabled() && !button->isHidden();
}

void ArrowFocus::SetStop(QToolButton* button) {
  if (!CanTake(button)) button = Next(0, +1);
  if (stop_ != nullptr) stop_->setFocusPolicy(Qt::NoFocus);
  stop_ = button;
  if (stop_ != nullptr) stop_->setFocusPolicy(Qt::TabFocus);
}

QToolButton* ArrowFocus::Next(qsizetype from, int step) const {
  for (qsizetype i = from; i >= 0 && i < buttons_.size(); i += step) {
    if (CanTake(buttons_[i])) return buttons_[i];
  }
  return nullptr;
}

bool ArrowFocus::eventFilter(QObject* watched, QEvent* event) {
  auto* const button = qobject_cast<QToolButton*>(watched);
  if (button == nullptr) return QObject::eventFilter(watched, event);
  if (event->type() == QEvent::FocusIn) {
    SetStop(button);
  } else if (event->type() == QEvent::EnabledChange || event->type() == QEvent::Hide ||
             event->type() == QEvent::HideToParent || event->type() == QEvent::ShowToParent) {
    // A bar that has become narrow hides buttons, which stay in the menus.
    if (!CanTake(stop_)) SetStop(nullptr);
  } else if (event->type() == QEvent::KeyPress) {
    const qsizetype at = buttons_.indexOf(button);
    QToolButton* next = nullptr;
    switch (static_cast<const QKeyEvent*>(event)->key()) {
      case Qt::Key_Left:
        next = Next(at - 1, -1);
        break;
      case Qt::Key_Right:
        next = Next(at + 1, +1);
        break;
      case Qt::Key_Home:
        next = Next(0, +1);
        break;
      case Qt::Key_End:
        next = Next(buttons_.size() - 1, -1);
        break;
      default:
        return QObject::eventFilter(watched, event);
    }
    if (next != nullptr) next->setFocus(Qt::OtherFocusReason);
    return true;
  }
  return QObject::eventFilter(watched, event);
}

}  // namespace headscope::ui
