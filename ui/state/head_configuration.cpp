// SPDX-License-Identifier: Apache-2.0
#include "head_configuration.h"

#include <QFileInfo>
#include <QStringList>
#include <algorithm>

#include "shown_text.h"
#include "while_alive.h"

namespace headscope::ui {

HeadConfiguration::HeadConfiguration(Workbench* workbench, MethodTrial* trial, HeadStore* heads, QObject* parent)
    : QObject(parent), workbench_(workbench), trial_(trial), heads_(heads) {
  connect(heads, &HeadStore::TraceChanged, this, &HeadConfiguration::Leave);
  connect(heads, &HeadStore::SelectionChanged, this, [this](analysis::HeadId head) {
    Apply();
    if (Of(head) != nullptr) Q_EMIT HeadFollowed();
  });
}

void HeadConfiguration::Open(const QString& path) {
  const int64_t number = ++number_;
  workbench_->ReadConfiguration(path.toStdString(),
                                WhileAlive(this,
                                           [this, number, path](const std::vector<HeadSetting>& settings) {
                                             if (number == number_) Use(QFileInfo(path).fileName(), path, settings);
                                           }),
                                WhileAlive(this, [this, number](const std::string& sentence) {
                                  if (number == number_) Q_EMIT Failed(QString::fromStdString(sentence));
                                }));
}

void HeadConfiguration::Use(const QString& title, const QString& path, const std::vector<HeadSetting>& settings) {
  ++number_;
  title_ = title;
  path_ = path;
  settings_.clear();
  for (const HeadSetting& setting : settings) settings_[setting.head] = setting.method;
  Apply();
  Q_EMIT Changed();
}

void HeadConfiguration::Leave() {
  ++number_;
  if (!in_use()) return;
  settings_.clear();
  title_.clear();
  path_.clear();
  Q_EMIT Changed();
}

const TuneSettings::Method* HeadConfiguration::Of(analysis::HeadId head) const {
  const auto found = settings_.find(head);
  return found == settings_.end() ? nullptr : &found->second;
}

std::vector<HeadSetting> HeadConfiguration::settings() const {
  std::vector<HeadSetting> all;
  for (const auto& [head, method] : settings_) all.push_back({head, method});
  return all;
}

std::vector<HeadSetting> HeadConfiguration::ShownHeads() const {
  std::vector<HeadSetting> shown;
  for (const analysis::HeadId& head : heads_->trace().heads) {
    const TuneSettings::Method* const method = Of(head);
    if (method != nullptr && heads_->Passes(head)) shown.push_back({head, *method});
  }
  return shown;
}

QString HeadConfiguration::Summary() const {
  std::map<std::string, size_t> counts;
  for (const auto& [head, method] : settings_) ++counts[method.name];
  QStringList methods;
  for (const auto& [name, count] : counts)
    methods.append(tr("%1 with %2").arg(count).arg(Shown(QString::fromStdString(name))));
  const QString heads = settings_.size() == 1 ? tr("1 head") : tr("%1 heads").arg(settings_.size());
  return tr("%1: %2, %3").arg(Shown(title_), heads, methods.join(QStringLiteral(", ")));
}

void HeadConfiguration::Apply() {
  if (!heads_->selected()) return;
  if (const TuneSettings::Method* const method = Of(*heads_->selected()))
    trial_->SelectMethod(method->name, method->values);
}

}  // namespace headscope::ui
