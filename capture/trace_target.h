// SPDX-License-Identifier: Apache-2.0
// Where a capture writes, so that no run, however it ends, costs the user a trace.
//
// A new trace grows under its own name: a run that is cut short leaves a valid, shorter one there. A trace that stands
// at the target already is replaced by a whole one only: the new one grows beside it as NAME.partial.EXT and takes the
// name at the end. Whatever ends a run earlier, a kill included, leaves the old trace as it was and the new one under
// the partial name. A run that recorded nothing leaves no file. Of a trace in several files all of that holds of each
// of them: they take their names all together or not at all, and what else was called by the trace's name goes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/trace_schema.h"

namespace headscope::capture {

// Bytes of a complete trace of `num_tokens` tokens and `num_rows` query rows, without HDF5's own structures.
int64_t TraceBytes(const data::TraceLayout& layout, int64_t num_tokens, int64_t num_rows);

class TraceTarget {
 public:
  // Touches nothing. Throws UsageError when the target exists (and not `overwrite`), is not a regular file, has a file
  // beside it that has the name of one of its files but is none (data/trace_replacement.h), or lies in a folder that
  // cannot be written.
  TraceTarget(std::string path, bool overwrite, int32_t num_files = 1);

  // Throws FailedError when the folder's disk has less than `bytes` free.
  void RequireSpace(int64_t bytes) const;
  // What to make: there is none of this name yet.
  const std::string& writing_path() const { return writing_path_; }
  std::vector<std::string> WritingFiles() const { return FilesOf(writing_path_); }
  // After the trace was made whole and closed: gives it the target's name, and no file of what had it before stays.
  // Throws FailedError; what was there before is there again then.
  void Complete() const;
  // After an early end of a run that made the files: removes them when no token was flushed. Returns what is left, as
  // the end of a message's sentence.
  std::string Leave(int64_t tokens_flushed) const;

 private:
  bool Replaces() const { return writing_path_ != path_; }
  std::vector<std::string> FilesOf(const std::string& path) const;
  std::string path_;
  std::string writing_path_;
  int32_t num_files_;
};

}  // namespace headscope::capture
