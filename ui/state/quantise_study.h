// SPDX-License-Identifier: Apache-2.0
// What few bits do to the output of the head on show: which formats, scales and rotations are tried, and what came out.
// Begun by a person, in the background; another head, or a run that is measured, ends it.
#pragma once

#include <string>
#include <vector>

#include "study.h"

namespace headscope::ui {

class QuantiseStudy : public Study {
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
  void Start() override;
  void Cancel() override;
  QString WhyNot() const override;
  QString WhyNotCopy() const override;  // also while a run is measured

  const std::vector<QuantisedOutput>& outputs() const { return outputs_; }  // of the head on show; empty: none yet

 private:
  void CancelWork() override { workbench()->CancelQuantise(); }
  void MeasuringChanged() override;

  const std::vector<std::string> formats_, scales_;
  QuantiseSettings settings_;
  std::vector<QuantisedOutput> outputs_;
};

}  // namespace headscope::ui
