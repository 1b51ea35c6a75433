// Output that is either complete or not there: written beside its target under a temporary name and renamed at the end.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace headscope::app {

// Refuses (UsageError) a target that exists unless `force`, whose folder does not, or that is one of the files in
// `inputs` by whatever name (a symbolic or hard link too): --force never replaces what the run itself reads. Empty
// names in `inputs` stand for options that were not given.
void CheckOutputTarget(const std::string& path, bool force, const std::vector<std::string>& inputs = {});

class OutputFile {
 public:
  OutputFile(std::string path, bool force);
  ~OutputFile();  // removes what was not committed
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Where to write; has the target's extension.
  const std::string& temporary_path() const { return temporary_path_; }
  // Calls write(temporary_path()). A failure that names the temporary file, which is gone when it is read, is thrown on
  // as a CommandError that names the target; others pass as they are.
  void Write(const std::function<void(const std::string& path)>& write) const;
  // Renames onto the target. Throws CommandError.
  void Commit();

 private:
  std::string path_;
  std::string temporary_path_;
  bool committed_ = false;
};

// `text` to `path` through an OutputFile, or to stdout when path is empty or "-".
void WriteText(const std::string& text, const std::string& path, bool force);

// "json", "csv", "h5", ... in lower case without the dot; empty when there is none.
std::string Extension(const std::string& path);

}  // namespace headscope::app
