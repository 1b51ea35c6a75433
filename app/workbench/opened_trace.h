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

  // The last recorded rows that decode methods are tried on: the tokens that the model generated, at most
  // kMostDecodeRows of them; in a trace without any, as many rows as `headscope compare` takes.
  static constexpr int32_t kMostDecodeRows = 256;
  int32_t DecodeRows() const;

  const data::TraceReader reader;
  const ui::TraceSummary summary;
  HeadCache heads;
};

}  // namespace headscope::app
