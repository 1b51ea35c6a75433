// SPDX-License-Identifier: Apache-2.0
// Output that is either complete or not there: written beside its target under a temporary name and renamed at the end.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "data/unfinished_file.h"

namespace headscope::app {

// Refuses (UsageError), before any work is done for it:
// - a name that is empty or longer than the file system takes; a folder that is not there or cannot be written;
// - one of the files in `inputs` by whatever name (a symbolic or hard link too): --force never replaces what the run
//   itself reads. Empty names in `inputs` stand for options that were not given;
// - whatever is there and is no regular file, --force or not: a rename would put a file in the place of a pipe or a
//   device, and in the place of a symbolic link, dangling or not, while the file behind it stayed as it was;
// - a file that exists, unless `force`.
void CheckOutputTarget(const std::string& path, bool force, const std::vector<std::string>& inputs = {});

// There is such a file, and nobody has allowed it to be replaced.
class OutputExistsError : public UsageError {
 public:
  using UsageError::UsageError;
};

class OutputFile {
 public:
  OutputFile(std::string path, bool force);
  ~OutputFile();  // removes what was not committed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Where to write; has the target's extension.
  const std::string& temporary_path() const { return temporary_path_; }
  // Calls write(temporary_path()). An error of the temporary file, which is gone when the sentence is read, is thrown
  // on as one of the target; others pass as they are.
  void Write(const std::function<void(const std::string& path)>& write) const;
  // Renames onto the target. Without `force` a file that has appeared there meanwhile is kept (UsageError); other
  // failures are FailedError.
  void Commit();

 private:
  std::string path_;
  bool force_;
  std::string temporary_path_;
  std::optional<data::UnfinishedFile> unfinished_;
  bool committed_ = false;
};

// A free name beside the target, to write under. What killed runs have left there is removed.
std::string NameBeside(const std::string& path);
// Of a target that a finished file could not get the name of, for the reason `error` (of errno): OutputExistsError
// where something has appeared there meanwhile, else FailedError.
[[noreturn]] void ThrowUnnamed(const std::string& path, int error);

// `text` to `path` through an OutputFile, or to stdout when path is empty or "-".
void WriteText(const std::string& text, const std::string& path, bool force);

// A fault of the field "output", which is what commands call the option.
Fault OutputFault(const std::string& path, const std::string& problem, const std::string& remedy = "");
// That of a file which the system refuses to write for the reason `error` (of errno): the reason and its remedy.
Fault WriteRefusal(const std::string& path, int error);

}  // namespace headscope::app
