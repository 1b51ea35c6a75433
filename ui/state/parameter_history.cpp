// SPDX-License-Identifier: Apache-2.0
#include "parameter_history.h"

#include <QUndoCommand>
#include <utility>

namespace headscope::ui {

class ParameterHistory::Step : public QUndoCommand {
 public:
  Step(ParameterHistory* history, MethodState before, MethodState after, bool same_drag)
      : history_(history), before_(std::move(before)), after_(std::move(after)), same_drag_(same_drag) {
    setText(QObject::tr("change of %1").arg(after_.method));
  }
  int id() const override { return 1; }
  bool mergeWith(const QUndoCommand* other) override {
    const auto* step = static_cast<const Step*>(other);
    // A drag stays with one method; from one to another and back are two steps.
    const QString& method = step->after_.method;
    if (!step->same_drag_ || method != before_.method || method != after_.method) return false;
    after_ = step->after_;
    return true;
  }
  void undo() override { Apply(before_); }
  void redo() override {
    // Pushing a step calls redo() at once, when the state is already there.
    if (history_->current_ != after_) Apply(after_);
  }

 private:
  void Apply(const MethodState& state) {
    history_->current_ = state;
    history_->restore_(state);
  }
  ParameterHistory* const history_;
  MethodState before_, after_;
  bool same_drag_;
};

void ParameterHistory::Begin(const MethodState& state) {
  current_ = state;
  known_ = true;
  continues_ = false;
  since_change_.invalidate();
}

void ParameterHistory::Record(const MethodState& state) {
  if (known_ && state == current_) return;
  const MethodState before = current_;
  const bool soon = since_change_.isValid() && since_change_.elapsed() < kOneDragMs;
  const bool same_drag = (std::exchange(continues_, false) || soon) && stack_.canUndo() && !stack_.canRedo();
  current_ = state;
  since_change_.start();
  if (known_) stack_.push(new Step(this, before, state, same_drag));
  known_ = true;
}

}  // namespace headscope::ui
