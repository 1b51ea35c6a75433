// SPDX-License-Identifier: Apache-2.0
// A folder that a command writes files to.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace headscope::app {

// Makes the folder, with those above it, where it is not there yet, so that everything else can be refused before any
// work is done. A run that ends before it has written anything leaves no folder behind either: the destructor removes
// those that this object made and that are still empty, and so does the constructor when it makes only some of them.
class OutputFolder {
 public:
  // Throws UsageError, whose sentence begins with `option`, where there is a file of that name or a folder cannot be
  // made.
  OutputFolder(const std::string& option, const std::string& path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  void RemoveEmpty();

  std::vector<std::filesystem::path> made_;  // each inside the one before it
};

}  // namespace headscope::app
