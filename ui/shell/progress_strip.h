// SPDX-License-Identifier: Apache-2.0
// Background work in the status bar: what runs, how far it is, how long it takes, and a button that stops it. A click
// beside the button opens the window that the work came from, if it has one.
#pragma once

#include <QLabel>
#include <QProgressBar>
#include <QToolButton>
#include <QWidget>
#include <functional>
#include <map>

#include "ui/workbench.h"

namespace headscope::ui {

// "Capturing: 1240 tokens/s, 12 s left".
QString DescribeProgress(const ProgressReport& report);

class ProgressStrip : public QWidget {
  Q_OBJECT

 public:
  explicit ProgressStrip(QWidget* parent = nullptr);
  // Several pieces of work may run; the one that started last is on show. `cancel` stops it; End takes it away. `open`
  // brings up its window.
  void Begin(const QString& name, std::function<void()> cancel, std::function<void()> open = {});
  void Update(const QString& name, const ProgressReport& report);
  void End(const QString& name);
  bool IsBusy() const { return !work_.empty(); }
  void CancelShown();

 protected:
  void mouseReleaseEvent(QMouseEvent* event) override;

 private:
  struct Work {
    std::function<void()> cancel, open;
    ProgressReport report;
    int started = 0;
  };
  std::map<QString, Work>::const_iterator Shown() const;
  void Refresh();

  std::map<QString, Work> work_;
  int starts_ = 0;
  QLabel* label_;
  QProgressBar* bar_;
  QToolButton* cancel_;
};

}  // namespace headscope::ui
