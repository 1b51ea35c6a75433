// SPDX-License-Identifier: Apache-2.0
// Exit codes of every subcommand (docs/design.md, "Contracts").
#pragma once

namespace headscope::app {

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kWrongUsage = 2,
  kBadInput = 3,
  kDeviceOrMemoryMissing = 4,
  kInterrupted = 130,
};

}  // namespace headscope::app
