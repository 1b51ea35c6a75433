// SPDX-License-Identifier: Apache-2.0
// Ctrl-C: the first asks long work to stop where its output stays valid, the second ends the process at once.
#pragma once

#include <stop_token>

namespace headscope::app {

// Installs the handler of SIGINT and SIGTERM and returns the token that it stops. No callback may be registered with
// that token: a request that runs none is one exchange of a lock-free atomic, which is what a handler may do.
std::stop_token StopOnInterrupt();

}  // namespace headscope::app
