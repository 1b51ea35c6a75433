// SPDX-License-Identifier: Apache-2.0
// Ctrl-C: the first asks long work to stop where its output stays valid, the second ends the process at once.
#pragma once

#include <atomic>

namespace headscope::app {

// Installs the handler for SIGINT and SIGTERM and returns the flag that it raises.
const std::atomic<bool>* InstallInterruptFlag();
bool Interrupted();

}  // namespace headscope::app
