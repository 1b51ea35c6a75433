// SPDX-License-Identifier: Apache-2.0
// By which thresholds heads get their class, and above which values of a metric they alarm: what a person may change of
// both. A change classes the heads of the store anew at once.
#pragma once

#include <QJsonObject>
#include <QObject>
#include <vector>

#include "head_store.h"
#include "ui/workbench.h"

namespace headscope::ui {

class ClassSettings : public QObject {
  Q_OBJECT

 public:
  // Both outlive it.
  ClassSettings(Workbench* workbench, HeadStore* heads, QObject* parent = nullptr);

  const std::vector<ClassThreshold>& defaults() const { return defaults_; }
  const std::vector<double>& values() const { return values_; }  // in their order
  // Clamped to 0..1; a vector of another size changes nothing.
  void SetValues(const std::vector<double>& values);

  // A metric that has an alarm by itself.
  struct Alarm {
    analysis::MetricInfo metric;  // with its default
    double value = 0;             // infinite: none
  };
  const std::vector<Alarm>& alarms() const { return alarms_; }
  void SetAlarm(size_t which, double value);

  bool IsDefault() const;
  void Reset();

  // What differs from the defaults. FromJson takes what it understands of an untrusted file; the rest is the default.
  QJsonObject ToJson() const;
  void FromJson(const QJsonObject& json);

 Q_SIGNALS:
  void Changed();

 private:
  bool TakeValues(const std::vector<double>& values);  // whether anything changed
  bool TakeAlarm(size_t which, double value);

  Workbench* const workbench_;
  HeadStore* const heads_;
  const std::vector<ClassThreshold> defaults_;
  std::vector<double> values_;
  std::vector<Alarm> alarms_;
};

}  // namespace headscope::ui
