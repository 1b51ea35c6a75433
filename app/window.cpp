// SPDX-License-Identifier: Apache-2.0
#include "window.h"

#include <cstdlib>

#include "base/errors.h"

#ifdef HEADSCOPE_HAVE_GUI
#include "support/paths.h"
#include "ui/application.h"
#include "workbench/statistics_store.h"
#include "workbench/trace_workbench.h"
#endif

namespace headscope::app {

void CheckDisplay() {
#ifdef HEADSCOPE_HAVE_GUI
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  // Qt would abort the process; a person on a server gets a sentence instead.
  if (!set("DISPLAY") && !set("WAYLAND_DISPLAY") && !set("QT_QPA_PLATFORM")) {
    throw UsageError({.problem = "there is no display (DISPLAY and WAYLAND_DISPLAY are empty)",
                      .remedy = "`headscope demo -o DIR` works without one"});
  }
#else
  throw UsageError({.problem = "this build has no window (preset headless)",
                    .remedy = "use a subcommand such as `headscope demo -o DIR`, or build the preset release"});
#endif
}

int OpenWindow([[maybe_unused]] int argc, [[maybe_unused]] char** argv, [[maybe_unused]] const std::string& open_path) {
  CheckDisplay();
#ifdef HEADSCOPE_HAVE_GUI
  ui::ApplicationOptions options;
  options.open_path = open_path;
  options.shipped_trace = ShippedTracePath();
  const WorkbenchOptions workbench{.share_dir = ShareDir(), .cache_dir = DefaultResultsDir()};
  return ui::RunApplication(argc, argv, options,
                            [&](ui::PostFunction post) { return MakeTraceWorkbench(workbench, std::move(post)); });
#else
  return 0;
#endif
}

}  // namespace headscope::app
