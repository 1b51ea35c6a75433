// SPDX-License-Identifier: Apache-2.0
// The classes of the window's heads by the thresholds that a person has set: what is known of each head is kept, so
// that other thresholds class all of them at once. On the UI thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analysis/class_rules.h"
#include "statistics_store.h"
#include "ui/workbench.h"

namespace headscope::app {

class HeadClasses {
 public:
  static std::vector<ui::ClassThreshold> Thresholds();  // with their defaults
  // Of values in that order; what is missing is the default.
  static analysis::ClassRules RulesOf(const std::vector<double>& values);
  // Values in that order. Throw as files do (WriteText, analysis::ReadClassRules).
  static void Write(const std::vector<double>& values, const std::string& path);
  static std::vector<double> Read(const std::string& path);

  // A head whose statistics have come.
  void Class(KnownHead* head);
  // For those and the later ones.
  void Set(const std::vector<double>& values, std::vector<analysis::HeadStatistics>* heads);
  void Forget();                       // another trace
  HeadClasses OfAnotherTrace() const;  // by the same thresholds
  const analysis::ClassRules& rules() const { return rules_; }
  int64_t bytes() const { return bytes_; }  // of what the window holds of the heads that were classed

 private:
  analysis::ClassRules rules_;
  std::map<analysis::HeadId, analysis::ClassEvidence> evidence_;
  std::map<analysis::HeadId, int64_t> bytes_of_head_;
  int64_t bytes_ = 0;
};

}  // namespace headscope::app
