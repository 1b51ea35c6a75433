// SPDX-License-Identifier: Apache-2.0
// An OutputFile for a trace, which may be spread over several files (data/trace_files.h): all of them, or none.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "data/unfinished_file.h"

namespace headscope::app {

class OutputTrace {
 public:
  // Refuses what CheckOutputTarget refuses of each file, and of every other file that a trace of this name has: these
  // are replaced as well. With `force`, UsageError of one that is of no such trace (data/trace_replacement.h).
  OutputTrace(std::string path, int32_t num_files, bool force, const std::vector<std::string>& inputs);
  ~OutputTrace();  // removes what was not committed
  OutputTrace(const OutputTrace&) = delete;
  OutputTrace& operator=(const OutputTrace&) = delete;

  // Calls write(path) with the name that the files are to be named for.
  void Write(const std::function<void(const std::string& path)>& write) const;
  // Gives the files their names, and removes what the trace of that name had before; where one name cannot be had, none
  // is taken. A file that has appeared there meanwhile is kept, with `force` where it is of no such trace (UsageError);
  // other failures are FailedError.
  void Commit();

 private:
  void RefuseForeign() const;
  std::vector<std::string> FilesOf(const std::string& path) const;
  std::string path_;
  int32_t num_files_;
  bool force_;
  std::string temporary_path_;
  std::deque<data::UnfinishedFile> unfinished_;
  bool committed_ = false;
};

}  // namespace headscope::app
