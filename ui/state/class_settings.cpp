// SPDX-License-Identifier: Apache-2.0
#include "class_settings.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headscope::ui {
namespace {

const QString kThresholds = QStringLiteral("thresholds"), kAlarms = QStringLiteral("alarms");
constexpr double kNone = std::numeric_limits<double>::infinity();

std::vector<double> ValuesOf(const std::vector<ClassThreshold>& thresholds) {
  std::vector<double> values;
  for (const ClassThreshold& threshold : thresholds) values.push_back(threshold.value);
  return values;
}

}  // namespace

ClassSettings::ClassSettings(Workbench* workbench, HeadStore* heads, QObject* parent)
    : QObject(parent),
      workbench_(workbench),
      heads_(heads),
      defaults_(workbench->class_thresholds()),
      values_(ValuesOf(defaults_)) {
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    if (std::isfinite(metric.alarm)) alarms_.push_back({metric, metric.alarm});
  }
}

bool ClassSettings::TakeValues(const std::vector<double>& values) {
  if (values.size() != values_.size()) return false;
  std::vector<double> taken = values;
  for (size_t i = 0; i < taken.size(); ++i)
    taken[i] = std::isnan(taken[i]) ? defaults_[i].value : std::clamp(taken[i], 0.0, 1.0);
  if (taken == values_) return false;
  values_ = taken;
  std::vector<analysis::HeadStatistics> heads = heads_->AllStatistics();
  workbench_->SetClassThresholds(values_, &heads);
  for (analysis::HeadStatistics& head : heads) heads_->Add(std::move(head));
  return true;
}

bool ClassSettings::TakeAlarm(size_t which, double value) {
  if (which >= alarms_.size() || std::isnan(value) || value == alarms_[which].value) return false;
  alarms_[which].value = value;
  heads_->SetAlarm(alarms_[which].metric.name, value);
  return true;
}

void ClassSettings::SetValues(const std::vector<double>& values) {
  if (TakeValues(values)) Q_EMIT Changed();
}

void ClassSettings::SetAlarm(size_t which, double value) {
  if (TakeAlarm(which, value)) Q_EMIT Changed();
}

bool ClassSettings::IsDefault() const {
  return ToJson().isEmpty();
}

void ClassSettings::Reset() {
  FromJson({});
}

QJsonObject ClassSettings::ToJson() const {
  QJsonObject thresholds, alarms, json;
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i] != defaults_[i].value) thresholds[QString::fromStdString(defaults_[i].name)] = values_[i];
  }
  for (const Alarm& alarm : alarms_) {
    if (alarm.value == alarm.metric.alarm) continue;
    // JSON has no infinity.
    alarms[QString::fromStdString(alarm.metric.name)] =
        std::isfinite(alarm.value) ? QJsonValue(alarm.value) : QJsonValue(QJsonValue::Null);
  }
  if (!thresholds.isEmpty()) json[kThresholds] = thresholds;
  if (!alarms.isEmpty()) json[kAlarms] = alarms;
  return json;
}

void ClassSettings::FromJson(const QJsonObject& json) {
  const QJsonObject thresholds = json[kThresholds].toObject(), alarms = json[kAlarms].toObject();
  std::vector<double> values;
  for (const ClassThreshold& threshold : defaults_)
    values.push_back(thresholds[QString::fromStdString(threshold.name)].toDouble(threshold.value));
  bool changed = TakeValues(values);
  for (size_t i = 0; i < alarms_.size(); ++i) {
    const QString name = QString::fromStdString(alarms_[i].metric.name);
    const bool is_off = alarms.contains(name) && alarms[name].isNull();
    changed |= TakeAlarm(i, is_off ? kNone : alarms[name].toDouble(alarms_[i].metric.alarm));
  }
  if (changed) Q_EMIT Changed();
}

}  // namespace headscope::ui
