// SPDX-License-Identifier: Apache-2.0
#include "support/interrupt.h"

#include <unistd.h>

#include <csignal>

#include "support/exit_codes.h"

namespace headscope::app {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

extern "C" void OnInterrupt(int) {
  if (interrupted.exchange(true)) ::_exit(kInterrupted);
}

}  // namespace

const std::atomic<bool>* InstallInterruptFlag() {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  return &interrupted;
}

bool Interrupted() {
  return interrupted.load();
}

}  // namespace headscope::app
