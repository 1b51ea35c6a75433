// SPDX-License-Identifier: Apache-2.0
// Ctrl+Shift+P: every command by a few letters of its name, with its shortcut; heads
// ("4:3"), methods and recent files, too.
#pragma once

#include <QAction>
#include <QFrame>
#include <QLineEdit>
#include <QListWidget>
#include <QPointer>
#include <functional>

namespace headscope::ui {

// Of an action: the name of what it leads to, as a person may type it alone ("Trace" of "Go to Trace").
inline constexpr char kLeadsToProperty[] = "leads_to";

// Something that can be chosen and is no command: a head, a method, a file.
struct PaletteEntry {
  QString text, help, kind;  // `kind` stands at the right: "head", "method", "recent file"
  std::function<void()> choose;
  bool only_when_typed = false;  // there are many of it: not in the list of an empty pattern
};

class CommandPalette : public QFrame {
  Q_OBJECT

 public:
  explicit CommandPalette(QWidget* window);
  // Opens over the window's top, with these actions; disabled ones are left out.
  void Open(const QList<QAction*>& actions, const QList<PaletteEntry>& entries = {});

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void Rank(const QString& pattern);
  void Choose();

  QList<QPointer<QAction>> actions_;
  QList<PaletteEntry> entries_;
  QLineEdit* input_;
  QListWidget* list_;
};

}  // namespace headscope::ui
