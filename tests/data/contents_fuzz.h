// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trace/contents.h"

namespace headscope::data::testing {

// A small trace as an open file without a name, and its table of contents.
struct OpenTrace {
  std::string path;
  Contents contents;
};
const OpenTrace& SeedTrace();

// Reads the small trace by that table. True when all of it was read, false when it was refused; anything else ends the
// program.
bool ReadByContents(Contents contents);

}  // namespace headscope::data::testing
