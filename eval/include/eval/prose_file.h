// SPDX-License-Identifier: Apache-2.0
// The filler text of the tasks.
#pragma once

#include <string>

namespace headscope::eval {

// The text at `path`. Throws BadInputError when it cannot be read, UsageError when `path` is empty: this
// room knows no folder of shipped files.
std::string ReadProse(const std::string& path);

}  // namespace headscope::eval
