// A folder that a command writes files to.
#pragma once

#include <string>

namespace headscope::app {

// Makes the folder, with those above it, where it is not there yet, so that everything else can be refused before any
// work is done. A run that ends before it has written anything leaves no folder behind either: the destructor removes
// one that this object made and that is still empty.
class OutputFolder {
 public:
  // Throws UsageError, whose sentence begins with `option`, where there is a file of that name or a folder cannot be
  // made.
  OutputFolder(const std::string& option, std::string path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  std::string path_;
  bool made_ = false;
};

}  // namespace headscope::app
