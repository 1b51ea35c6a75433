// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/trace_writer.h"
#include "trace/contents.h"

namespace headscope::data::testing {

// A small trace as an open file without a name, and its table of contents.
struct OpenTrace {
  std::string path;
  Contents contents;
};
const OpenTrace& SeedTrace(TraceStorage storage = TraceStorage::kPlain);

// Reads the small trace by that table. True when all of it was read, false when it was refused; anything else ends the
// program.
bool ReadByContents(Contents contents, TraceStorage storage = TraceStorage::kPlain);

}  // namespace headscope::data::testing
