// SPDX-License-Identifier: Apache-2.0
// Starts the window.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ui/workbench.h"

namespace headscope::ui {

struct ApplicationOptions {
  std::string open_path;  // trace or model folder; empty: last session, else the shipped trace
  std::string shipped_trace;
};
// Makes the workbench after QApplication exists: post() runs a function on the UI thread, from any thread.
using PostFunction = std::function<void(std::function<void()>)>;
using WorkbenchFactory = std::function<std::unique_ptr<Workbench>(PostFunction post)>;

// Runs the event loop; returns the process' exit code.
int RunApplication(int& argc, char** argv, const ApplicationOptions& options, const WorkbenchFactory& make_workbench);

}  // namespace headscope::ui
