// SPDX-License-Identifier: Apache-2.0
// The manual page headscope(1), written from the parser's own definitions.
#pragma once

#include <string>

#include "manual/command_text.h"

namespace headscope::app {

// In the language of man(7). `version` is headscope's.
std::string ManPage(const ProgramText& text, const std::string& version);

}  // namespace headscope::app
