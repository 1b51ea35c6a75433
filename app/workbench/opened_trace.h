// A trace as the window holds it: the reader, its summary, the heads in memory.
#pragma once

#include <string>

#include "data/trace_reader.h"
#include "head_cache.h"
#include "ui/workbench.h"

namespace headscope::app {

struct OpenedTrace {
  // Reads the layout and the tokens, no head. Throws data::TraceError.
  explicit OpenedTrace(const std::string& path);

  const data::TraceReader reader;
  const ui::TraceSummary summary;
  HeadCache heads;
};

// A token's bytes as one printable line of UTF-8: control characters and bytes that are not UTF-8 by themselves (a
// token may be a part of a character) become escapes such as \n and \xE2.
std::string PrintableToken(const std::string& bytes);

}  // namespace headscope::app
