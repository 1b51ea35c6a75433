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
  const char* title;                  // what a person reads; empty: another name of one before
  double usual;
};
// MInference calls the mean of the rows' kept mass recall.
inline constexpr TargetName kTargetNames[] = {
    {"cra", "cra_min", analysis::BudgetTarget::Kind::kMass, analysis::MassStatistic::kMinimum,
     "CRA of every query at least", 0.95},
    {"cra-p5", "cra_p5", analysis::BudgetTarget::Kind::kMass, analysis::MassStatistic::kFifthPercentile,
     "CRA of 95 % of the queries at least", 0.95},
    {"cra-mean", "cra_mean", analysis::BudgetTarget::Kind::kMass, analysis::MassStatistic::kMean,
     "mean CRA of the queries at least", 0.95},
    {"recall", "cra_mean", analysis::BudgetTarget::Kind::kMass, analysis::MassStatistic::kMean, "", 0.95},
    {"error", "relative_error", analysis::BudgetTarget::Kind::kError, analysis::MassStatistic::kMean,
     "relative error of the output at most", 0.05},
    {"kept", "kept_fraction", analysis::BudgetTarget::Kind::kKept, analysis::MassStatistic::kMean,
     "kept share of the pairs at most", 0.25},
    {"work", "work_share", analysis::BudgetTarget::Kind::kWork, analysis::MassStatistic::kMean,
     "share of the kernel's tiles at most", 0.25},
    {"time", "time_share", analysis::BudgetTarget::Kind::kTime, analysis::MassStatistic::kMean,
     "share of dense attention's time at most", 0.5},
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
