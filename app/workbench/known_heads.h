// SPDX-License-Identifier: Apache-2.0
// What is known of the heads of the trace on show: their statistics as they come, and their classes by the thresholds
// that a person has set. On the UI thread, but for pausing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "head_classes.h"
#include "statistics_job.h"
#include "ui/workbench.h"

namespace headscope::app {

class KnownHeads {
 public:
  // `memory` outlives it, and counts what the window holds of the heads. `failed`: of a head that cannot be read, or a
  // cache folder that cannot be written.
  KnownHeads(StatisticsJob::Post post, std::shared_ptr<MeasuringGate> gate, ui::MemoryBudget* memory,
             ui::ErrorReply failed);

  // As Workbench::RequestStatistics.
  void Request(std::shared_ptr<OpenedTrace> trace, const std::string& cache_dir,
               ui::Reply<analysis::HeadStatistics> one, std::function<void()> finished,
               ui::Reply<ui::ProgressReport> progress);
  void Cancel(std::function<void()> ended) { job_.Cancel(std::move(ended)); }
  void Forget();            // the trace is another one now; nothing is computed any more
  void CountAsForgotten();  // the window has let go of them, too

  // As Workbench::SetClassThresholds.
  void SetThresholds(const std::vector<double>& values, std::vector<analysis::HeadStatistics>* heads) {
    classes_.Set(values, heads);
  }
  void ClassLike(const KnownHeads& other) { classes_ = other.classes_.OfAnotherTrace(); }
  const analysis::ClassRules& rules() const { return classes_.rules(); }

  StatisticsJob& job() { return job_; }  // to be paused

 private:
  ui::MemoryBudget* const memory_;
  const ui::ErrorReply failed_;
  HeadClasses classes_;
  StatisticsJob job_;
};

}  // namespace headscope::app
