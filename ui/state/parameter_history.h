// SPDX-License-Identifier: Apache-2.0
// Undo and redo of the method's parameters. The changes of one drag make one step.
#pragma once

#include <QElapsedTimer>
#include <QString>
#include <QUndoStack>
#include <functional>

namespace headscope::ui {

struct MethodState {
  QString method, parameters;  // parameters as ParameterValues::ToString writes them
  double mass_target = 0;      // HeadCanvas::mass_target
  friend bool operator==(const MethodState&, const MethodState&) = default;
};

class ParameterHistory {
 public:
  using Restore = std::function<void(const MethodState&)>;
  explicit ParameterHistory(Restore restore) : restore_(std::move(restore)) {}

  // Where steps begin.
  void Begin(const MethodState& state);
  // The state as it is now; a state that is already known (a restored one, too) adds no step. Changes of one method
  // that follow each other within kOneDragMs are one step.
  void Record(const MethodState& state);
  const MethodState& current() const { return current_; }  // as it was recorded last
  // The next change is the rest of the latest step, however long it took.
  void ContinueStep() { continues_ = true; }
  QUndoStack* stack() { return &stack_; }

  static constexpr qint64 kOneDragMs = 700;

 private:
  class Step;
  Restore restore_;
  MethodState current_;
  bool known_ = false, continues_ = false;
  QElapsedTimer since_change_;
  QUndoStack stack_;
};

}  // namespace headscope::ui
