// SPDX-License-Identifier: Apache-2.0
#include "head_classes.h"

#include <algorithm>

#include "analysis/classify.h"
#include "support/output_file.h"

namespace headscope::app {
namespace {

int64_t BytesOf(const analysis::HeadStatistics& statistics) {
  constexpr int64_t kCopies = 2;  // that of the job, for its file, and the window's
  const size_t bytes =
      sizeof(statistics) + statistics.class_reason.capacity() +
      (statistics.column_profile.size() + statistics.diagonal_profile.size() + statistics.logit_profile.size()) *
          sizeof(float);
  return kCopies * static_cast<int64_t>(bytes);
}

}  // namespace

analysis::ClassRules HeadClasses::RulesOf(const std::vector<double>& values) {
  analysis::ClassRules rules;
  const auto thresholds = analysis::ClassThresholds();
  for (size_t i = 0; i < std::min(values.size(), thresholds.size()); ++i) rules.*thresholds[i].member = values[i];
  return rules;
}

std::vector<ui::ClassThreshold> HeadClasses::Thresholds() {
  std::vector<ui::ClassThreshold> thresholds;
  for (const analysis::ClassThreshold& threshold : analysis::ClassThresholds())
    thresholds.push_back({threshold.name, threshold.help, analysis::ClassRules{}.*threshold.member});
  return thresholds;
}

void HeadClasses::Write(const std::vector<double>& values, const std::string& path) {
  WriteText(analysis::ClassRulesJson(RulesOf(values)), path, /*force=*/true);
}

std::vector<double> HeadClasses::Read(const std::string& path) {
  const analysis::ClassRules rules = analysis::ReadClassRules(path);
  std::vector<double> values;
  for (const analysis::ClassThreshold& threshold : analysis::ClassThresholds())
    values.push_back(rules.*threshold.member);
  return values;
}

void HeadClasses::Class(KnownHead* head) {
  evidence_[head->statistics.id] = head->evidence;
  analysis::Classify(head->evidence, rules_, &head->statistics);
  int64_t& bytes = bytes_of_head_[head->statistics.id];
  bytes_ -= bytes;
  bytes = BytesOf(head->statistics);
  bytes_ += bytes;
}

void HeadClasses::Forget() {
  evidence_.clear();
  bytes_of_head_.clear();
  bytes_ = 0;
}

void HeadClasses::Set(const std::vector<double>& values, std::vector<analysis::HeadStatistics>* heads) {
  rules_ = RulesOf(values);
  for (analysis::HeadStatistics& head : *heads) {
    const auto known = evidence_.find(head.id);
    if (known != evidence_.end()) analysis::Classify(known->second, rules_, &head);
  }
}

HeadClasses HeadClasses::OfAnotherTrace() const {
  HeadClasses classes;
  classes.rules_ = rules_;
  return classes;
}

}  // namespace headscope::app
