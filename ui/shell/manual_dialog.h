// SPDX-License-Identifier: Apache-2.0
// The manual inside the window: the user guide and the pages about methods, analysis and files, as docs/ has them, a
// section at a time: a whole page would take the window's thread for longer than a frame. What is typed is looked for
// in all of them.
#pragma once

#include <QDialog>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QString>
#include <QTextBrowser>
#include <QUrl>
#include <vector>

namespace headscope::ui {

// Where a heading is linked to: lower case, spaces as hyphens, other signs left out ("Read a head" -> "read-a-head").
QString HeadingAnchor(const QString& heading);

struct ManualSection {
  QString heading;
  int level = 1;     // of the heading
  QString markdown;  // with the heading, up to the next one
};
// A page's sections, by its headings of the first three levels outside blocks of code. Pictures of the window are left
// out: they are of no use inside it.
std::vector<ManualSection> SectionsOf(const QString& markdown);

// Every row of a table as an entry of a list, its cells after the titles of their columns: Qt lays a table of some
// twenty rows out in three frames' time.
QString TablesAsLists(const QString& markdown);

class ManualDialog : public QDialog {
  Q_OBJECT

 public:
  explicit ManualDialog(QWidget* parent = nullptr);

  // A page by its file name ("methods.md") and, if it has one of that anchor, its section. An unknown page changes
  // nothing, and the answer is false.
  bool Show(const QString& file, const QString& anchor = {});
  // The section of methods.md whose heading names the method, or else the first whose text does.
  void ShowMethod(const QString& name);

 private:
  struct Entry {
    QString file;
    ManualSection section;
  };
  void Load(int entry);
  void CountHits();  // of what is typed, in the list's entries
  void FindNext();   // in the section on show, then in the next one that has it
  void Follow(const QUrl& link);

  std::vector<Entry> entries_;
  QLineEdit* search_;
  QListWidget* list_;
  QTextBrowser* text_;
  QLabel* hits_;
};

}  // namespace headscope::ui
