// SPDX-License-Identifier: Apache-2.0
// Makes a tool bar's buttons one stop of Tab: Left and Right walk among them, Home and End go to the first and the
// last. Without it Tab needs a press for each button.
#pragma once

#include <QList>
#include <QObject>

class QToolBar;
class QToolButton;

namespace headscope::ui {

class ArrowFocus : public QObject {
  Q_OBJECT

 public:
  // Of the buttons that the bar has now; goes with the bar.
  explicit ArrowFocus(QToolBar* bar);

  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  static bool CanTake(const QToolButton* button);
  // The button that Tab stops at; where it cannot take the keyboard, the first that can.
  void SetStop(QToolButton* button);
  // The next button that can take the keyboard from place `from` on, not beyond the ends; null: there is none.
  QToolButton* Next(qsizetype from, int step) const;

  QList<QToolButton*> buttons_;
  QToolButton* stop_ = nullptr;
};

}  // namespace headscope::ui
