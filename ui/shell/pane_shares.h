// SPDX-License-Identifier: Apache-2.0
// Keeps the panes' shares of the window: what the window takes from them as it shrinks, they get back as it grows.
#pragma once

#include <QDockWidget>
#include <QList>
#include <QMainWindow>
#include <QSizeF>
#include <QTimer>
#include <map>

namespace headscope::ui {

class PaneShares : public QObject {
  Q_OBJECT

 public:
  // Both outlive it. Not before Remember() does it change anything.
  PaneShares(QMainWindow* window, const QList<QDockWidget*>& docks);

  // The panes are as a person wants them: at first, after a layout was restored, and after a splitter was moved.
  void Remember();
  void WindowResized();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void Apply();

  QMainWindow* const window_;
  const QList<QDockWidget*> docks_;
  std::map<QDockWidget*, QSizeF> shares_;  // of the window's width and height
  // Of the window when its panes were at rest. While it has another size, what panes do is nobody's wish.
  QSize at_rest_;
  QTimer settle_, rest_;  // since the window's last resize
};

}  // namespace headscope::ui
