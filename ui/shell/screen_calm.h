// SPDX-License-Identifier: Apache-2.0
// Tells when the window has drawn what it was told to, for work that must not have frames drawn beside it.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>
#include <QWidget>
#include <functional>
#include <vector>

#include "ui/workbench.h"

namespace headscope::ui {

class ScreenCalm : public QObject {
  Q_OBJECT

 public:
  // `is_due`: whether something will ask for a frame that Qt does not know of yet: one that is asked for on a map, or,
  // of Drawn::kTiles, a tile on its way.
  ScreenCalm(QWidget* window, std::function<bool(Drawn)> is_due);

  // Calls `then` when the window has drawn nothing for some 30 ms and no frame is due, or after kLongestMs of a window
  // that never rests (an animation, a pointer that is moved over it). Of Drawn::kTiles, never while a tile is due.
  void Then(Drawn what, std::function<void()> then);

  static constexpr int kLongestMs = 1000;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  struct Waiting {
    Drawn what = Drawn::kFrames;
    std::function<void()> then;
    QElapsedTimer since;
  };
  void Look();

  const std::function<bool(Drawn)> is_due_;
  std::vector<Waiting> waiting_;
  QTimer look_;    // only while somebody waits
  int looks_ = 0;  // since the last frame
};

}  // namespace headscope::ui
