// SPDX-License-Identifier: Apache-2.0
// Undo and redo of the settings of the view: colours, scale, metric, filter, theme and the like, as one JSON object.
// Changes of one setting that follow each other closely are one step. Pure.
#pragma once

#include <QElapsedTimer>
#include <QJsonObject>
#include <QUndoStack>
#include <functional>

namespace headscope::ui {

class SettingHistory {
 public:
  using Restore = std::function<void(const QJsonObject&)>;
  // `stack` outlives the history. `restore` applies those members that a step changes.
  SettingHistory(QUndoStack* stack, Restore restore) : stack_(stack), restore_(std::move(restore)) {}

  // Where steps begin: what is set from now on can be taken back to here.
  void Begin(const QJsonObject& settings);
  // As they are now; known ones (restored ones, too) add no step. Does nothing before Begin.
  void Record(const QJsonObject& settings);

  // A change of members that also change by themselves, such as the view's place: Record does not see them. The same
  // members, changed again soon, make one step with it. Does nothing before Begin.
  void RecordChange(const QString& what, const QJsonObject& before, const QJsonObject& after);

  static constexpr qint64 kOneChangeMs = 700;

 private:
  class Step;
  QUndoStack* const stack_;
  Restore restore_;
  QJsonObject current_;
  bool begun_ = false, restoring_ = false;
  void Push(const QString& what, const QJsonObject& before, const QJsonObject& after);

  QElapsedTimer since_change_;
};

}  // namespace headscope::ui
