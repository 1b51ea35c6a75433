// SPDX-License-Identifier: Apache-2.0
// The keyboard, for as long as something lies over the window: it goes back to what had it. By itself Qt gives it to
// whatever comes next, such as a row of tabs, where the next arrow changes the pane.
#pragma once

#include <QPointer>
#include <QWidget>

namespace headscope::ui {

class BorrowedFocus {
 public:
  // Before `borrower` takes it, also again while it is on show: something else may have it by then.
  void Take(const QWidget* borrower) {
    QWidget* const present = borrower->window()->focusWidget();
    if (!IsWithin(present, borrower)) owner_ = present;
  }
  // While the focus is still within `borrower`; what has it elsewhere by now keeps it.
  void GiveBack(const QWidget* borrower) {
    const bool has_it = IsWithin(borrower->window()->focusWidget(), borrower);
    if (owner_ != nullptr && owner_->isVisible() && owner_->isEnabled() && has_it)
      owner_->setFocus(Qt::OtherFocusReason);
  }

 private:
  static bool IsWithin(const QWidget* focus, const QWidget* borrower) {
    return focus != nullptr && (focus == borrower || borrower->isAncestorOf(focus));
  }

  QPointer<QWidget> owner_;
};

}  // namespace headscope::ui
