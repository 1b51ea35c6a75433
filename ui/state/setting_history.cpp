// SPDX-License-Identifier: Apache-2.0
#include "setting_history.h"

#include <QObject>
#include <QUndoCommand>
#include <utility>

namespace headscope::ui {
namespace {

constexpr int kStepId = 2;  // parameters have another one

QJsonObject WhatDiffers(const QJsonObject& of, const QJsonObject& from) {
  QJsonObject differs;
  for (auto member = of.begin(); member != of.end(); ++member) {
    if (from[member.key()] != member.value()) differs[member.key()] = member.value();
  }
  return differs;
}

}  // namespace

class SettingHistory::Step : public QUndoCommand {
 public:
  Step(SettingHistory* history, const QString& what, QJsonObject before, QJsonObject after, Merging merging, bool soon)
      : QUndoCommand(what),
        history_(history),
        before_(std::move(before)),
        after_(std::move(after)),
        merging_(merging),
        soon_(soon) {}
  int id() const override { return kStepId; }
  bool mergeWith(const QUndoCommand* other) override {
    const auto* step = static_cast<const Step*>(other);
    if (merging_ == kAlone || step->merging_ == kAlone) return false;
    if (!step->soon_ || step->after_.keys() != after_.keys()) return false;
    after_ = step->after_;
    if (after_ == before_) {  // there is nothing left to take back
      setObsolete(true);
      history_->since_change_.invalidate();  // the step below is an older one
    }
    return true;
  }
  void undo() override { Apply(before_); }
  void redo() override {
    // Pushing a step calls redo() at once, when the settings are already there.
    if (!WhatDiffers(after_, history_->current_).isEmpty()) Apply(after_);
  }

 private:
  void Apply(const QJsonObject& members) {
    for (auto member = members.begin(); member != members.end(); ++member)
      history_->current_[member.key()] = member.value();
    history_->restoring_ = true;
    history_->restore_(members);
    history_->restoring_ = false;
  }
  SettingHistory* const history_;
  QJsonObject before_, after_;  // the members that differ
  const Merging merging_;
  const bool soon_;  // after the change before
};

void SettingHistory::Begin(const QJsonObject& settings) {
  current_ = settings;
  begun_ = true;
}

void SettingHistory::Record(const QJsonObject& settings) {
  if (!begun_ || restoring_) return;
  const QJsonObject after = WhatDiffers(settings, current_);
  if (after.isEmpty()) return;
  QJsonObject before;
  for (const QString& name : after.keys()) before[name] = current_[name];
  current_ = settings;
  Push(name_ ? name_(after.keys()) : QObject::tr("change of the view"), before, after, kWithTheNext);
}

void SettingHistory::RecordChange(const QString& what, const QJsonObject& before, const QJsonObject& after) {
  Add(what, before, after, kWithTheNext);
}

void SettingHistory::RecordStep(const QString& what, const QJsonObject& before, const QJsonObject& after) {
  Add(what, before, after, kAlone);
}

void SettingHistory::Add(const QString& what, const QJsonObject& before, const QJsonObject& after, Merging merging) {
  if (!begun_ || restoring_ || before == after) return;
  for (auto member = after.begin(); member != after.end(); ++member) current_[member.key()] = member.value();
  Push(what, before, after, merging);
}

void SettingHistory::Push(const QString& what, const QJsonObject& before, const QJsonObject& after, Merging merging) {
  const bool soon = since_change_.isValid() && since_change_.elapsed() < kOneChangeMs && !stack_->canRedo();
  since_change_.start();
  stack_->push(new Step(this, what, before, after, merging, soon));
}

}  // namespace headscope::ui
