// SPDX-License-Identifier: Apache-2.0
// A step of undo that two functions take back and forth. Steps of one kind that follow each other closely, as those of
// a key that is held down, are one.
#pragma once

#include <QElapsedTimer>
#include <QUndoCommand>
#include <cstdint>
#include <functional>
#include <utility>

#include "setting_history.h"

namespace headscope::ui {

class ActionStep : public QUndoCommand {
 public:
  // kDone: what the step does has been done when it is pushed.
  enum Begins { kToDo, kDone };
  // Other numbers than those of the steps of ParameterHistory and SettingHistory.
  enum Kind { kAlone = -1, kMemory = 3 };
  ActionStep(const QString& text, std::function<void()> undo, std::function<void()> redo, Begins begins = kToDo,
             Kind kind = kAlone)
      : QUndoCommand(text), undo_(std::move(undo)), redo_(std::move(redo)), is_done_(begins == kDone), kind_(kind) {
    since_.start();
  }
  // Of no other step, also when this one is gone.
  int64_t serial() const { return serial_; }
  int id() const override { return kind_; }
  bool mergeWith(const QUndoCommand* other) override {
    if (since_.elapsed() >= SettingHistory::kOneChangeMs) return false;
    redo_ = static_cast<const ActionStep*>(other)->redo_;
    since_.start();
    return true;
  }
  void undo() override { undo_(); }
  void redo() override {
    if (!std::exchange(is_done_, false)) redo_();
  }

 private:
  const std::function<void()> undo_;
  std::function<void()> redo_;
  bool is_done_;
  const Kind kind_;
  inline static int64_t num_made_ = 0;
  const int64_t serial_ = ++num_made_;
  QElapsedTimer since_;  // the last change
};

}  // namespace headscope::ui
