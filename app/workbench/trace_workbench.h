// SPDX-License-Identifier: Apache-2.0
// The workbench behind the window: ui::Workbench over data, capture, analysis and kernels.
#pragma once

#include <memory>
#include <string>

#include "ui/application.h"
#include "ui/workbench.h"

namespace headscope::app {

struct WorkbenchPaths {
  std::string share_dir;  // holds reference_model/ and prompts/
  std::string cache_dir;  // results beside the traces' keys; made when missing. Empty: nothing is kept
};

// `post` runs a function on the UI thread, from any thread; it must outlive the workbench. Destroying the workbench
// cancels and joins all its work; functions posted before that do nothing when they run later.
std::unique_ptr<ui::Workbench> MakeTraceWorkbench(const WorkbenchPaths& paths, ui::PostFunction post);

}  // namespace headscope::app
