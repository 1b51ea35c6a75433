// SPDX-License-Identifier: Apache-2.0
// The keyboard, for as long as something lies over the window: it goes back to what had it. By itself Qt gives it to
// whatever comes next, such as a row of tabs, where the next arrow changes the pane.
#pragma once

#include <QPointer>
#include <QWidget>

namespace headscope::ui {

class BorrowedFocus {
 public:
  // Before `borrower` is shown. One that is on show has borrowed it already.
  void Take(const QWidget* borrower) {
    if (!borrower->isVisible()) owner_ = borrower->window()->focusWidget();
  }
  // While the focus is still within `borrower`; what has it elsewhere by now keeps it.
  void GiveBack(const QWidget* borrower) {
    const QWidget* const present = borrower->window()->focusWidget();
    const bool has_it = present != nullptr && (present == borrower || borrower->isAncestorOf(present));
    if (owner_ != nullptr && owner_->isVisible() && owner_->isEnabled() && has_it)
      owner_->setFocus(Qt::OtherFocusReason);
  }

 private:
  QPointer<QWidget> owner_;
};

}  // namespace headscope::ui
