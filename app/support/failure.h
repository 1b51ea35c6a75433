// SPDX-License-Identifier: Apache-2.0
// What a command that failed says and exits with.
#pragma once

#include <exception>
#include <string>

#include "base/errors.h"
#include "support/exit_codes.h"

namespace headscope::app {

ExitCode ExitCodeOf(ErrorKind kind);

struct Failure {
  ExitCode code = kFailed;
  std::string sentence;
};
// By the type of what was thrown: an Error's kind; memory or threads that the system does not give; anything else, such
// as a library's std::out_of_range that nobody expected, has failed and is nobody's wrong usage.
Failure FailureOf(const std::exception& error);

}  // namespace headscope::app
