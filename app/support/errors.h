// SPDX-License-Identifier: Apache-2.0
// How subcommands refuse. main() turns these into one sentence on stderr and an exit code.
#pragma once

#include <stdexcept>

namespace headscope::app {

// A wrong value of an option (exit code 2): one sentence that names the option, the value and what is allowed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// A measurement or a write failed for a reason that is nobody's input (exit code 1).
class CommandError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace headscope::app
