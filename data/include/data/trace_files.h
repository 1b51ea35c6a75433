// SPDX-License-Identifier: Apache-2.0
// A trace in several files, as safetensors are sharded: each is a whole trace of some of the recorded layers
// (docs/trace_format.md, "Several files"). How they are named, and which layers are in which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/trace_schema.h"

namespace headscope::data {

// One writer thread each; far more than any disk needs.
inline constexpr int32_t kMaxTraceFiles = 64;

// "DIR/out.h5" -> "DIR/out-00002-of-00004.h5"; of a single file the path itself.
std::string TraceFilePath(const std::string& path, int32_t number, int32_t count);
// All of them, in order.
std::vector<std::string> TraceFilePaths(const std::string& path, int32_t count);

struct TraceFileName {
  std::string path;  // of the trace: "DIR/out.h5"
  int32_t number = 0;
  int32_t count = 0;
};
// Nothing where the name does not end like that.
std::optional<TraceFileName> ParseTraceFilePath(const std::string& path);

// The files in the folder of "DIR/out.h5" whose names make them files of it, as TraceFilePath spells them, in the
// order of their names. Only names are looked at. A folder that cannot be read has none.
std::vector<std::string> FilesNamedFor(const std::string& path);

// The files that opening `path` would read, by their names: all of the trace of which it is one or which it is the name
// of, or itself.
std::vector<std::string> FilesToOpen(const std::string& path);

// The recorded layers' slots in each file, rising. Layers that share stored keys and values, or a selection, stay
// together; the others are dealt out one by one, each to the file with the fewest bytes, so that neighbouring layers,
// which a model finishes one after the other, are written at the same time. `expected_rows` as TraceWriter takes them.
// Throws UsageError (field: files) where there are fewer such groups than files.
std::vector<std::vector<int32_t>> DealLayers(const TraceLayout& layout, int32_t num_files, int64_t expected_rows);

// The layouts of the files, without what identifies the set.
std::vector<TraceLayout> LayoutsOfFiles(const TraceLayout& layout, const std::vector<std::vector<int32_t>>& slots);

}  // namespace headscope::data
