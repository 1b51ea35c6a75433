// SPDX-License-Identifier: Apache-2.0
// A label of one line that widens nothing: a text that it has no room for ends in an ellipsis, and its tooltip is then
// the whole of it. QLabel cuts through the middle of a letter, so that a number looks like another one.
#pragma once

#include <QLabel>

namespace headscope::ui {

class CutLabel : public QLabel {
 public:
  explicit CutLabel(QWidget* parent = nullptr);

  bool IsCut() const;

 protected:
  bool event(QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  QRect Room() const;
};

}  // namespace headscope::ui
