// SPDX-License-Identifier: Apache-2.0
// What few bits do to the output of the head on show: which formats, scales and rotations are tried, and what came out.
// Begun by a person, in the background; another head, or a run that is measured, ends it.
#pragma once

#include <QObject>
#include <vector>

#include "head_store.h"
#include "ui/workbench.h"

namespace headscope::ui {

class QuantiseStudy : public QObject {
  Q_OBJECT

 public:
  // Both outlive it.
  QuantiseStudy(Workbench* workbench, HeadStore* heads, QObject* parent = nullptr);
  ~QuantiseStudy() override;

  const std::vector<std::string>& formats() const { return formats_; }
  const std::vector<std::string>& scales() const { return scales_; }
  void SetSettings(const QuantiseSettings& settings);
  const QuantiseSettings& settings() const { return settings_; }

  // Does nothing where WhyNot() says something.
  void Start();
  void Cancel();
  // Something is measured, and has the machine to itself.
  void SetMeasuring(bool measuring);
  // Why it cannot begin, as a part of a sentence; empty: it can.
  QString WhyNot() const;

  bool working() const { return working_; }
  const std::vector<QuantisedOutput>& outputs() const { return outputs_; }  // of the head on show; empty: none yet
  const QString& error() const { return error_; }

 Q_SIGNALS:
  void Changed();
  void Began();
  void Progressed(const headscope::ui::ProgressReport& report);
  void Ended();
  void CommandWanted();  // a pane's button: the command line is copied

 private:
  void End();

  Workbench* const workbench_;
  HeadStore* const heads_;
  const std::vector<std::string> formats_, scales_;
  QuantiseSettings settings_;
  std::vector<QuantisedOutput> outputs_;
  QString error_;
  bool working_ = false, measuring_ = false;
  int64_t number_ = 0;  // of the newest work: an older one's answer is dropped
};

}  // namespace headscope::ui
