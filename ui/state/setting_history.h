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
  using NameStep = std::function<QString(const QStringList& members)>;
  // `stack` outlives the history. `restore` applies those members that a step changes, `name` says what they are.
  SettingHistory(QUndoStack* stack, Restore restore, NameStep name = {})
      : stack_(stack), restore_(std::move(restore)), name_(std::move(name)) {}

  // Where steps begin: what is set from now on can be taken back to here.
  void Begin(const QJsonObject& settings);
  // As they are now; known ones (restored ones, too) add no step. Does nothing before Begin.
  void Record(const QJsonObject& settings);

  // A change of members that also change by themselves, such as the view's place: Record does not see them. The same
  // members, changed again soon, make one step with it. Does nothing before Begin.
  void RecordChange(const QString& what, const QJsonObject& before, const QJsonObject& after);
  // One that a person asked for by its name: always a step of its own, whatever follows it. Does nothing before Begin.
  void RecordStep(const QString& what, const QJsonObject& before, const QJsonObject& after);

  static constexpr qint64 kOneChangeMs = 700;

 private:
  class Step;
  QUndoStack* const stack_;
  Restore restore_;
  NameStep name_;
  QJsonObject current_;
  bool begun_ = false, restoring_ = false;
  // kAlone: what goes before or behind it is another step, however soon.
  enum Merging : bool { kAlone, kWithTheNext };
  void Add(const QString& what, const QJsonObject& before, const QJsonObject& after, Merging merging);
  void Push(const QString& what, const QJsonObject& before, const QJsonObject& after, Merging merging);

  QElapsedTimer since_change_;
};

}  // namespace headscope::ui
