// SPDX-License-Identifier: Apache-2.0
// A step of undo that two functions take back and forth.
#pragma once

#include <QUndoCommand>
#include <functional>
#include <utility>

namespace headscope::ui {

class ActionStep : public QUndoCommand {
 public:
  // kDone: what the step does has been done when it is pushed.
  enum Begins { kToDo, kDone };
  ActionStep(const QString& text, std::function<void()> undo, std::function<void()> redo, Begins begins = kToDo)
      : QUndoCommand(text), undo_(std::move(undo)), redo_(std::move(redo)), is_done_(begins == kDone) {}
  void undo() override { undo_(); }
  void redo() override {
    if (!std::exchange(is_done_, false)) redo_();
  }

 private:
  const std::function<void()> undo_, redo_;
  bool is_done_;
};

}  // namespace headscope::ui
