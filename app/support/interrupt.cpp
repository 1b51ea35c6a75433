// SPDX-License-Identifier: Apache-2.0
#include "support/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <stop_token>

#include "support/exit_codes.h"

namespace headscope::app {
namespace {

// Never destroyed: a signal may come while the process ends.
std::stop_source* interrupt = nullptr;

extern "C" void OnInterrupt(int) {
  if (!interrupt->request_stop()) ::_exit(kInterrupted);
}

}  // namespace

std::stop_token StopOnInterrupt() {
  if (interrupt == nullptr) interrupt = new std::stop_source;
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  return interrupt->get_token();
}

}  // namespace headscope::app
