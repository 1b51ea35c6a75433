// SPDX-License-Identifier: Apache-2.0
// Completion scripts for shells, written from the parser's own definitions.
#pragma once

#include <string>

#include "manual/command_text.h"

namespace headscope::app {

// The script for `shell`: bash, zsh or fish. Throws UsageError for another one.
std::string Completions(const ProgramText& text, const std::string& shell);

}  // namespace headscope::app
