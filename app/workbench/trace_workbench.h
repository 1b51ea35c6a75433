// SPDX-License-Identifier: Apache-2.0
// The workbench behind the window: ui::Workbench over data, capture, analysis and kernels.
#pragma once

#include <memory>
#include <string>

#include "ui/application.h"
#include "ui/workbench.h"

namespace headscope::app {

struct WorkbenchOptions {
  std::string share_dir;  // holds reference_model/ and prompts/
  std::string cache_dir;  // results beside the traces' keys; made when missing. Empty: nothing is kept
  // Of each stretch that a run measures, its repeats together: on two cores, what a desktop does beside them takes a
  // few milliseconds now and then. 0, for tests that ask for no times: as many repeats as are set.
  double least_measured_ms = 300;
};

// `post` runs a function on the UI thread, from any thread; it must outlive the workbench. Destroying the workbench
// cancels and joins all its work; functions posted before that do nothing when they run later.
std::unique_ptr<ui::Workbench> MakeTraceWorkbench(const WorkbenchOptions& options, ui::PostFunction post);

}  // namespace headscope::app
