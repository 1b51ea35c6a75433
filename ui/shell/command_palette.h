// SPDX-License-Identifier: Apache-2.0
// Ctrl+Shift+P: every command by a few letters of its name, with its shortcut.
#pragma once

#include <QAction>
#include <QFrame>
#include <QLineEdit>
#include <QListWidget>
#include <QPointer>

namespace headscope::ui {

class CommandPalette : public QFrame {
  Q_OBJECT

 public:
  explicit CommandPalette(QWidget* window);
  // Opens over the window's top, with these actions; disabled ones are left out.
  void Open(const QList<QAction*>& actions);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void Rank(const QString& pattern);
  void Choose();

  QList<QPointer<QAction>> actions_;
  QLineEdit* input_;
  QListWidget* list_;
};

}  // namespace headscope::ui
