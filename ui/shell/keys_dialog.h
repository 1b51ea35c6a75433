// SPDX-License-Identifier: Apache-2.0
// What the keyboard and the mouse do, by subject, with a filter over all of it.
#pragma once

#include <QDialog>
#include <QLineEdit>
#include <QString>
#include <QTextBrowser>
#include <vector>

namespace headscope::ui {

struct KeysSection {
  struct Line {
    QString keys, meaning;
  };
  QString title;
  std::vector<Line> lines;
};

// What the map, the panel and the panes do by themselves. What has a command is not among it.
std::vector<KeysSection> GestureSections();

class KeysDialog : public QDialog {
  Q_OBJECT

 public:
  explicit KeysDialog(std::vector<KeysSection> sections, QWidget* parent = nullptr);

 private:
  // The lines that have every word of the filter in their keys, meaning or title.
  void Show();

  const std::vector<KeysSection> sections_;
  QLineEdit* const filter_;
  QTextBrowser* const text_;
};

}  // namespace headscope::ui
