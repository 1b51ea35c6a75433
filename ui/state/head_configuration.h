// SPDX-License-Identifier: Apache-2.0
// A configuration that gives each head a method and parameters of its own, from a file or from what was tuned here.
// While one is in use, the method under trial is that of the head on show, and a measurement of all heads takes each
// one's own.
#pragma once

#include <QObject>
#include <QString>
#include <map>
#include <vector>

#include "head_store.h"
#include "method_trial.h"

namespace headscope::ui {

class HeadConfiguration : public QObject {
  Q_OBJECT

 public:
  // All of them outlive the configuration.
  HeadConfiguration(Workbench* workbench, MethodTrial* trial, HeadStore* heads, QObject* parent = nullptr);

  // Reads the file in the background, and uses what it has for the open trace's heads: Changed follows, or Failed.
  void Open(const QString& path);
  // `title`: what a person reads, a file's name or where the settings come from. `path`: of the file; empty: none.
  void Use(const QString& title, const QString& path, const std::vector<HeadSetting>& settings);
  // Heads have the method under trial again, all the same one.
  void Leave();

  bool in_use() const { return !settings_.empty(); }
  const QString& title() const { return title_; }
  const QString& path() const { return path_; }
  size_t num_heads() const { return settings_.size(); }
  std::vector<HeadSetting> settings() const;  // of every head that has one
  // Null where the configuration has none for the head.
  const TuneSettings::Method* Of(analysis::HeadId head) const;
  // Of those of the trace's heads that have one and that the filter lets pass, in the trace's order.
  std::vector<HeadSetting> ShownHeads() const;
  // "tuned.json: 80 heads, 12 with a-shape, 68 with vertical-slash".
  QString Summary() const;

 Q_SIGNALS:
  void Changed();
  void HeadFollowed();  // another head is on show, and the method under trial has become that head's own
  void Failed(const QString& sentence);

 private:
  void Apply();  // to the head on show

  Workbench* const workbench_;
  MethodTrial* const trial_;
  HeadStore* const heads_;
  QString title_, path_;
  std::map<analysis::HeadId, TuneSettings::Method> settings_;
  int64_t number_ = 0;  // of the newest request: the answer of an older one is dropped
};

}  // namespace headscope::ui
