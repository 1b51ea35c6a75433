// SPDX-License-Identifier: Apache-2.0
// What tune can aim at: its names on the command line and in files.
#pragma once

#include "analysis/search.h"

namespace headscope::app {

struct TargetName {
  const char* option;  // as typed
  const char* field;   // in files
  analysis::BudgetTarget::Kind kind;
  analysis::MassStatistic statistic;  // of a mass
};
// MInference calls the mean of the rows' kept mass recall.
inline constexpr TargetName kTargetNames[] = {
    {"cra", "cra_min", analysis::BudgetTarget::Kind::kMass, analysis::MassStatistic::kMinimum},
    {"cra-p5", "cra_p5", analysis::BudgetTarget::Kind::kMass, analysis::MassStatistic::kFifthPercentile},
    {"cra-mean", "cra_mean", analysis::BudgetTarget::Kind::kMass, analysis::MassStatistic::kMean},
    {"recall", "cra_mean", analysis::BudgetTarget::Kind::kMass, analysis::MassStatistic::kMean},
    {"error", "relative_error", analysis::BudgetTarget::Kind::kError, analysis::MassStatistic::kMean},
    {"kept", "kept_fraction", analysis::BudgetTarget::Kind::kKept, analysis::MassStatistic::kMean},
    {"work", "work_share", analysis::BudgetTarget::Kind::kWork, analysis::MassStatistic::kMean},
    {"time", "time_share", analysis::BudgetTarget::Kind::kTime, analysis::MassStatistic::kMean},
};

inline const char* TargetField(const analysis::BudgetTarget& target) {
  for (const TargetName& name : kTargetNames) {
    if (name.kind == target.kind &&
        (target.kind != analysis::BudgetTarget::Kind::kMass || name.statistic == target.statistic))
      return name.field;
  }
  return "";
}

}  // namespace headscope::app
