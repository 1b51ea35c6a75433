// SPDX-License-Identifier: Apache-2.0
// Whether names lead to one trace, by what stands in its files (docs/trace_format.md, "Several files").
#pragma once

#include <string>

namespace headscope::data {

class TraceReader;

// What the files of the trace at `path` say that they share, those of a copy too; empty where it was written into one
// file, or cannot be read.
std::string FileSetAt(const std::string& path);

// Whether `path` leads to one of the files of a trace, itself or by a link, or to a file of the same set; `set` is
// FileSetAt(path), and may be asked for once for many traces.
bool LeadsTo(const std::string& path, const std::string& set, const TraceReader& trace);

}  // namespace headscope::data
