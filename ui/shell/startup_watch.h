// SPDX-License-Identifier: Apache-2.0
// The window watched from outside: how long a start takes, and pictures of the window without a person at it.
//
// Three environment variables ask for it; without them none of this exists:
//   HEADSCOPE_LOG_STARTUP=1   prints on stderr when the window and its first map were painted, in seconds after the
//                             process began; with the value `only` the program ends there.
//   HEADSCOPE_COMMANDS=a,b    runs commands by their ids in the command table, each once the one before came to rest.
//   HEADSCOPE_PICTURE=x.png   writes the window, without a notice over the map, to a file once everything came to rest,
//                             and ends the program.
#pragma once

#include <QObject>
#include <QString>
#include <QStringList>
#include <QTimer>

#include "main_window.h"

namespace headscope::ui {

class StartupWatch : public QObject {
  Q_OBJECT

 public:
  // Watches `window`, which owns the watch. Nothing happens when no variable is set.
  static void FromEnvironment(MainWindow* window);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  explicit StartupWatch(MainWindow* window);
  void Look();
  bool IsAtRest() const;
  void TakePicture();

  MainWindow* const window_;
  const bool log_, only_log_;
  const QString picture_;
  QStringList commands_;
  bool window_painted_ = false, map_painted_ = false;
  int looks_at_rest_ = 0;
  QTimer timer_;
};

}  // namespace headscope::ui
