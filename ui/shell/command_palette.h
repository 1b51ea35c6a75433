// SPDX-License-Identifier: Apache-2.0
// Ctrl+Shift+P: every command by a few letters of its name, with its category and shortcut; heads ("4:3"), methods and
// recent files, too. "view:" before the letters leaves one category.
#pragma once

#include <QAction>
#include <QFrame>
#include <QLineEdit>
#include <QListWidget>
#include <QPointer>
#include <functional>

#include "borrowed_focus.h"

namespace headscope::ui {

// Of an action: the name of what it leads to, as a person may type it alone ("Trace" of "Go to Trace").
inline constexpr char kLeadsToProperty[] = "leads_to";

// Something that can be chosen and is no command: a head, a method, a file.
struct PaletteEntry {
  QString text, help, category;  // "head", "method", "recent file"
  std::function<void()> choose;
  bool only_when_typed = false;  // there are many of it: not in the list of an empty pattern
};

struct PaletteGroup {
  QString category;  // "file", "view"
  QList<QAction*> actions;
};

class CommandPalette : public QFrame {
  Q_OBJECT

 public:
  explicit CommandPalette(QWidget* window);
  // Opens over the window's top, with these actions; disabled ones are left out.
  void Open(const QList<PaletteGroup>& groups, const QList<PaletteEntry>& entries = {});

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void Rank(const QString& typed);
  void Choose();
  void Close();  // the keyboard goes back to where it was

  struct Listed {
    QString category;
    QPointer<QAction> action;
  };
  QList<Listed> actions_;
  QList<PaletteEntry> entries_;
  BorrowedFocus before_;
  QLineEdit* input_;
  QListWidget* list_;
  int num_choices_ = 0;  // items of the list, less a last line that says what it does not list
};

}  // namespace headscope::ui
