// SPDX-License-Identifier: Apache-2.0
#include "support/sleeping_threads.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace headscope::app {
namespace {

constexpr std::string_view kCommandsWithLibTorch[] = {"capture", "compare", "demo", "eval"};

}  // namespace

bool RunsLibTorch(char** argv) {
  if (argv[0] == nullptr || argv[1] == nullptr) return false;
  return std::ranges::find(kCommandsWithLibTorch, std::string_view(argv[1])) != std::end(kCommandsWithLibTorch);
}

void LetThreadsSleepWhileTheyWait(char** argv) {
  if (argv[0] == nullptr) return;
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0) != 0) return;
  // The same process goes on as a fresh copy of the program. Where that is not permitted, this one goes on: it computes
  // the same, and spins.
  ::execv("/proc/self/exe", argv);
}

}  // namespace headscope::app
